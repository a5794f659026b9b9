# The Dagster definitions in the picture: the same hours of departures, in pandas.
import dagster as dg
import pandas as pd

import graveler
from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions
from graveler.config import environment

CARRIERS = ("AA", "B6", "DL", "EV", "UA", "WN")

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00", end_date="2013-01-01-08:00")
lake = GravelerResource(lake=environment("GRAVELER_LAKE", ""), repository="flights")
frames = GravelerIOManager(graveler=lake)


@dg.asset(partitions_def=hours)
def departures(context: dg.AssetExecutionContext) -> pd.DataFrame:
    hour = context.partition_time_window.start.hour
    rows = range(hour * 11, hour * 11 + 44 + hour)
    return pd.DataFrame(
        {
            "flight": [1000 + row for row in rows],
            "carrier": [CARRIERS[row % 6] for row in rows],
            "delay": [(row * 37) % 95 - 12 for row in rows],
        }
    )


@dg.asset(partitions_def=hours)
def carriers(departures: pd.DataFrame) -> pd.DataFrame:
    return departures.groupby("carrier", as_index=False).agg(mean_delay=("delay", "mean"))


def written(candidate, prefix):
    for change in candidate.changes(prefix):
        if change.after:
            with candidate.open(change.path) as file:
                yield pd.read_parquet(file)


@graveler.gate
def enough_rows(candidate):
    count = sum(len(frame) for frame in written(candidate, "departures/"))
    candidate.report(rows=count, least=40)
    return count >= 40 or f"{count} rows, where an hour has 40 or more"


@graveler.gate(severity="warn")
def usual_delays(candidate):
    longest = max(int(frame["delay"].max()) for frame in written(candidate, "departures/"))
    candidate.report(longest=longest)
    return longest < 80 or f"the longest delay is {longest} minutes"


defs = graveler_definitions(
    [departures, carriers],
    lake,
    gates=[enough_rows, usual_delays],
    partitions_def=hours,
    io_manager=frames,
    name="flights",
)
