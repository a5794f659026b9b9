"""A day of a pipeline and of an ingestion, with something of every end."""

from contextlib import suppress

from graveler.errors import GravelerError
from graveler.gates import Gate, checks
from tests.harness.judges import no_bad_file

DAY = "2026-01-01"


class LostError(Exception):
    """What a step of the pipeline raises."""


def counted(candidate):
    """Report the rows of the hour, and refuse an hour without any."""
    new = [change.after for change in candidate.changes("out/") if change.after is not None]
    rows = sum(candidate.get(entry.path).count(b"\n") for entry in new)
    candidate.report(rows=rows, by_file={entry.path: entry.size for entry in new})
    return None if rows else "0 rows in the hour"


GATES = [
    Gate("row count", counted, prefix="out/"),
    Gate("weather", lambda _: "no weather at JFK", prefix="out/", severity="warn"),
]


def run_of(repo, hour, content=b"a\nb\n", name="hourly", key="{name} {day}T{hour}:00Z"):
    """Publish the run of an hour."""
    with repo.run(key.format(name=name, day=DAY, hour=hour), gates=GATES) as run:
        with run.step("clean") as step:
            step.put(f"out/{DAY.replace('-', '/')}/{hour}:00/{name}.csv", content)
        if content == b"lost":
            raise LostError("the source is gone")


def day(repo):
    """Fill a day: 00 to 07 without 03; 02 is rolled back, 04 refused, 05 parked, 06 open, 07 abandoned."""
    repo.gates.require("main", checks.only_within("out/", "input/", "dev/"))
    for hour in ("00", "01", "02"):
        run_of(repo, hour, b"a\n" * (int(hour) + 1))
    repo.runs.rollback(f"hourly {DAY}T02:00Z")
    for hour, content in (("04", b""), ("05", b"lost"), ("07", b"lost")):
        with suppress(GravelerError, LostError):
            run_of(repo, hour, content)
    repo.runs.abandon(f"hourly {DAY}T07:00Z", reason="not worth it")
    repo.runs.open(f"hourly {DAY}T06:00Z").put("out/half", b"1")
    run_of(repo, "08")


def ingest(repo, on_refusal="quarantine", branch="ingest"):
    """Publish an hour, refuse the next one, and leave a file staged."""
    ingestion = repo.ingestion(branch, gates=[no_bad_file], on_refusal=on_refusal)
    for hour, name in (("00", "a.csv"), ("01", "b.bad"), ("02", "c.csv")):
        ingestion.branch.put(f"input/{DAY.replace('-', '/')}/{hour}:00/{name}", b"1")
        ingestion.tick(f"{DAY}T{hour}:00Z")
    ingestion.branch.put(f"input/{DAY.replace('-', '/')}/03:00/d.csv", b"1")
    return ingestion
