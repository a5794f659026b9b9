"""The demo's tables: what they are called, and their columns."""

from collections.abc import Mapping
from typing import Final

INPUT: Final = "input"
FLIGHTS: Final = "output/flights"
DELAYS: Final = "output/delays"

RAW_FLIGHTS: Final = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
RAW_WEATHER: Final = (
    "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,"
    "visib,time_hour"
)

FLIGHTS_SQL: Final[Mapping[str, str]] = {
    "time_hour": "timestamp",
    "carrier": "string",
    "flight": "int",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "sched_dep_time": "int",
    "dep_time": "int",
    "dep_delay": "int",
    "arr_delay": "int",
    "air_time": "int",
    "distance": "int",
    "temp": "double",
    "wind_speed": "double",
    "precip": "double",
    "visib": "double",
}
"""Columns of a cleaned flight and Spark's types of them; the last four are the weather's."""

DELAYS_SQL: Final[Mapping[str, str]] = {
    "origin": "origin",
    "carrier": "carrier",
    "flights": "count(*)",
    "cancelled": "count_if(dep_time is null)",
    "late": "count_if(dep_delay > 15)",
    "mean_dep_delay": "round(avg(dep_delay), 2)",
    "max_dep_delay": "max(dep_delay)",
}
"""Columns of an hour's delays by airport and carrier, and how they are computed."""
