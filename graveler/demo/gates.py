"""The gates of the demo: conditions that an hour must meet before main moves.

A gate reads only the hours that its candidate changes. An hour has one or two small files, which are
read here without Spark.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graveler import frames
from graveler.demo.flights import FLIGHTS, FLIGHTS_FILE, FLIGHTS_SQL, INPUT
from graveler.gates import Candidate, Gate, checks, gate

if TYPE_CHECKING:
    import pyarrow as pa


_KEY = ("time_hour", "carrier", "flight")
_EARLIEST = -2 * 60
_LATEST = 2 * 24 * 60
_ARROW = {"string": "string", "int": "int32", "double": "double", "timestamp": ""}
"""The types of the files; that of a time is any."""
_SHOWN = 3


schema = checks.schema(
    f"{FLIGHTS}/",
    {name: _ARROW[kind] for name, kind in FLIGHTS_SQL.items()},
    evolution="none",
    missing="allow",
    name="schema",
)


@gate("row count")
def row_count(candidate: Candidate) -> str | None:
    """The table has as many rows as the raw files."""
    for hour in sorted({*_hours(candidate, INPUT), *_hours(candidate, FLIGHTS)}):
        raw = f"{INPUT}/{hour}/{FLIGHTS_FILE}"
        if not candidate.exists(raw):
            return f"{raw} is missing: nothing to compare the flights of {hour} with"
        landed = sum(1 for _ in csv.DictReader(io.StringIO(candidate.get(raw).decode())))
        rows = sum(table.num_rows for _, table in _tables(candidate, hour))
        if rows != landed or rows == 0:
            return f"{hour}: {rows} rows, {landed} landed"
    return None


@gate("no duplicates", prefix=f"{FLIGHTS}/")
def no_duplicates(candidate: Candidate) -> str | None:
    """No flight occurs twice."""
    for hour in _hours(candidate, FLIGHTS):
        seen = Counter(tuple(row[name] for name in _KEY) for row in _rows(candidate, hour, *_KEY))
        twice = [f"{carrier} {flight}" for (_, carrier, flight), n in seen.items() if n > 1]
        if twice:
            return f"{hour}: {len(twice)} flights more than once: {_some(twice)}"
    return None


@gate("plausible delays", prefix=f"{FLIGHTS}/")
def plausible_delays(candidate: Candidate) -> str | None:
    """A flight that left has a plausible delay; a cancelled flight has none."""
    for hour in _hours(candidate, FLIGHTS):
        strange = [
            f"{row['carrier']} {row['flight']} ({row['dep_delay']})"
            for row in _rows(candidate, hour, "carrier", "flight", "dep_time", "dep_delay")
            if not _is_plausible(row["dep_time"], row["dep_delay"])
        ]
        if strange:
            return f"{hour}: {len(strange)} flights with an impossible delay: {_some(strange)}"
    return None


@gate("weather known", prefix=f"{FLIGHTS}/", severity="warn")
def weather_known(candidate: Candidate) -> str | None:
    """The weather of each airport is known; a missing value warns and does not refuse."""
    for hour in _hours(candidate, FLIGHTS):
        unknown = Counter(
            row["origin"] for row in _rows(candidate, hour, "origin", "temp") if row["temp"] is None
        )
        if unknown:
            return f"{hour}: no temperature at {', '.join(sorted(unknown))}"
    return None


GATES: tuple[Gate, ...] = (
    schema,
    row_count,
    no_duplicates,
    plausible_delays,
    weather_known,
)
"""The gates of the demo, in the order in which they run."""


def _is_plausible(left: int | None, delay: int | None) -> bool:
    if left is None or delay is None:
        return left is None and delay is None
    return _EARLIEST <= delay <= _LATEST


def _hours(candidate: Candidate, root: str) -> list[str]:
    """Return the hours below `root` that differ from the target: ``2013/01/01/10:00``."""
    below = (change.path.removeprefix(f"{root}/") for change in candidate.changes(f"{root}/"))
    return sorted({path.rpartition("/")[0] for path in below})


def _tables(candidate: Candidate, hour: str) -> "Iterator[tuple[str, pa.Table]]":
    for entry in candidate.entries(f"{FLIGHTS}/{hour}/"):
        yield entry.path, frames.read(candidate, entry.path, "pyarrow")


def _rows(candidate: Candidate, hour: str, *columns: str) -> Iterator[dict[str, Any]]:
    for _, table in _tables(candidate, hour):
        yield from table.select(columns).to_pylist()


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
