"""A day of flights with something for every page: refused, missing, parked and rolled back hours."""

import csv
import io
from contextlib import suppress
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from graveler.demo.flights import FLIGHTS, FLIGHTS_FILE, INPUT, damage, hour_prefix, load_flights
from graveler.demo.gates import no_duplicates, plausible_delays, row_count
from graveler.demo.pipeline import run_key
from graveler.errors import GravelerError
from graveler.gates import Gate, checks
from graveler.lake import Lake, Repository
from graveler.runs.run import Run

REPOSITORY = "flights"
HOURS = 24
_DAMAGED, _LOST, _ROLLED_BACK, _OPEN = 5, 9, 3, 12
_MISSING = 7
_NO_EMPTY_FILE = Gate(
    "no empty file",
    lambda candidate: (
        ", ".join(
            f"{change.path} is empty"
            for change in candidate.changes("arrivals/")
            if change.after is not None and not change.after.size
        )
        or None
    ),
    prefix="arrivals/",
)
_COLUMNS = ("time_hour", "carrier", "flight", "origin", "dest", "dep_time", "dep_delay")


def _counted(candidate):
    """Report the rows and the mean delay of the new flights."""
    rows = candidate.new_rows(f"{FLIGHTS}/", pa.Table)
    delays = [delay for delay in rows["dep_delay"].to_pylist() if delay is not None]
    candidate.report(rows=rows.num_rows, mean_delay=round(sum(delays) / max(len(delays), 1), 1))


GATES = (
    Gate("numbers", _counted, prefix=f"{FLIGHTS}/", reads="run"),
    row_count,
    no_duplicates,
    plausible_delays,
)


def flights_lake(lake: Lake, hours: int = HOURS) -> Repository:
    """Fill a lake with some hours of flights, their runs, an ingestion and branches."""
    repo = lake.create_repository(REPOSITORY)
    repo.gates.require("main", checks.only_within("input/", "output/", "reports/", "arrivals/"))
    flights = load_flights()
    for number, hour in enumerate(flights.hours(hours)):
        if number == _MISSING:
            continue
        text = flights.flights.text(hour)
        with suppress(GravelerError, LookupError):
            _hour(repo, hour, damage(text) if number == _DAMAGED else text, lost=number == _LOST)
        if number == _ROLLED_BACK:
            repo.runs.rollback(run_key(hour))
    _branches(repo)
    _arrivals(repo, flights.hours(3))
    hour = flights.hours(hours)[-1] + timedelta(hours=1)
    repo.runs.open(run_key(hour)).put(f"{hour_prefix(INPUT, hour)}{FLIGHTS_FILE}", b"waits")
    return repo


def _hour(repo: Repository, hour: datetime, text: str, *, lost: bool) -> None:
    with repo.run(run_key(hour), gates=GATES) as run:
        with run.step("ingest") as step:
            step.put(
                f"{hour_prefix(INPUT, hour)}{FLIGHTS_FILE}", text.encode(), content_type="text/csv"
            )
        if lost:
            raise LookupError("the weather service does not answer")
        _transform(run, hour, text)


def _transform(run: Run, hour: datetime, text: str) -> None:
    rows = list(csv.DictReader(io.StringIO(text)))
    columns = {
        name: [
            _value(row[name]) if name in ("dep_time", "dep_delay") else row[name] for row in rows
        ]
        for name in _COLUMNS
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    with run.step("transform") as step:
        step.put(f"{hour_prefix(FLIGHTS, hour)}part-0.parquet", buffer.getvalue())


def _value(text: str) -> int | None:
    try:
        return int(float(text))
    except ValueError:
        return None


def _branches(repo: Repository) -> None:
    """Make a branch with another version of a table, a conflict, staged files, and a tag."""
    report = "carrier,flights\nUA,12\nB6,9\n"
    main = repo.branch("main")
    main.put("reports/day.csv", report.encode(), content_type="text/csv")
    main.commit("A report of the day")
    repo.tags.create("first-day", "main")
    fix = repo.create_branch("fix-report")
    fix.put("reports/day.csv", report.replace("9", "11").encode(), content_type="text/csv")
    fix.commit("JetBlue has eleven flights")
    main.put("reports/day.csv", report.replace("9", "10").encode(), content_type="text/csv")
    main.commit("JetBlue has ten flights")
    other = repo.create_branch("notes")
    other.put("reports/notes.txt", b"Snow at JFK from 16:00 on.\n")
    other.commit("Notes of the day")
    other.put("reports/draft.txt", b"not yet\n")
    repo.merge("notes", "main")


def _arrivals(repo: Repository, hours: list[datetime]) -> None:
    ingestion = repo.ingestion("arrivals", gates=[_NO_EMPTY_FILE], on_refusal="quarantine")
    for number, hour in enumerate(hours):
        ingestion.branch.put(
            hour_prefix("arrivals", hour) + "a.csv", b"" if number == 1 else b"a,b\n1,2\n"
        )
        ingestion.tick(f"{hour:%Y-%m-%dT%H:%M}Z")
    ingestion.branch.put("arrivals/late.csv", b"a,b\n3,4\n")
