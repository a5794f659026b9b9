"""The trams on a real Dagster instance, compared row by row with the plain calculation."""

from datetime import UTC, date, timedelta
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

import graveler.frames
from dagster_graveler.resource import forget_runs
from graveler.base.clock import SystemClock
from graveler.lake.shared import close_lakes
from tests.long.projects import plain_trams
from tests.real.dagster.programs.daemon import daemon_of

pytestmark = [
    pytest.mark.slow,
    # Dagster itself uses what it has deprecated or previews
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
    pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition"),
]

TICKETS = ("sales", "hourly", "passes", "tickets_publish")
SPRING = [date(2026, 3, 28) + timedelta(days=number) for number in range(3)]
AUTUMN = [date(2026, 10, 22) + timedelta(days=number) for number in range(7)]


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "lake") as made:
        made.create_repository("trams").protection.add("main")
        yield made
    forget_runs()
    close_lakes()


@pytest.fixture
def trams(lake):
    return lake.repository("trams")


@pytest.fixture
def landing(tmp_path):
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture
def daemon(lake, landing, monkeypatch):
    monkeypatch.setenv("TRAMS_LAKE", lake.location)
    monkeypatch.setenv("TRAMS_LANDING", str(landing))
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    with daemon_of(str(Path(__file__).with_name("dagster_trams.py"))) as daemon:
        daemon.sense()  # the sensor of commits begins at the head that it sees first
        yield daemon


def rows_on_main(trams, asset, day):
    """Return the rows of an asset and day on main, sorted, or None if there are none."""
    midnight = pd.Timestamp(day, tz="Europe/Berlin").astimezone(UTC)
    folder = f"{asset}/{midnight:%Y/%m/%d/%H:%M}/"
    main = trams.ref("main")
    if not list(main.list(folder)):
        return None
    if asset == "bulletin":
        return [(line,) for line in main.get(f"{folder}data").decode().splitlines()]
    frame = graveler.frames.read(main, folder, pd.DataFrame)
    return sorted(frame.itertuples(index=False, name=None))


def compare(trams, landing, days):
    """Compare main with the plain calculation; return the number of equal rows of each asset."""
    counts = {}
    for asset, of_days in plain_trams.calculate(landing, days).items():
        for day, rows in of_days.items():
            assert rows_on_main(trams, asset, day) == rows, f"{asset} of {day}"
        counts[asset] = sum(map(len, of_days.values()))
    return counts


def backfill(daemon, days):
    return daemon.backfill(TICKETS, [str(days[0]), str(days[-1])])


def alone(daemon, day):
    """Run the job for one day, as `dagster job execute` does; return the steps that failed."""
    trams = import_module("tests.long.projects.dagster_trams")  # its warnings are those of a test
    job = trams.defs.resolve_job_def("tickets_job")
    result = job.execute_in_process(
        instance=daemon.instance, partition_key=str(day), raise_on_error=False
    )
    return {event.step_key for event in result.get_step_failure_events()}


def report(daemon, trams, days):
    """Let the sensor of commits start the second pipeline until it has run for these days."""
    for _ in days:
        daemon.sense()
        if all(rows_on_main(trams, "bulletin", day) for day in days):
            break
        SystemClock().sleep(2)


def test_main_is_as_the_plain_calculation(daemon, trams, landing):
    for day in [*SPRING, *AUTUMN]:
        plain_trams.deliver(landing, day)
    late = landing / f"{AUTUMN[3]}.jsonl"
    late.unlink()

    assert backfill(daemon, SPRING) == "COMPLETED_SUCCESS"
    report(daemon, trams, SPRING)
    assert compare(trams, landing, SPRING) == {
        "hourly": 284,
        "passes": 9,
        "line_days": 12,
        "bulletin": 18,
    }

    assert backfill(daemon, AUTUMN) == "COMPLETED_FAILED"  # a file has not arrived
    assert [rows_on_main(trams, "passes", day) is not None for day in AUTUMN] == [True] * 3 + [
        False
    ] * 4
    plain_trams.deliver(landing, AUTUMN[3], lacks=3)
    assert alone(daemon, AUTUMN[3]) == {"tickets_gates_sales"}
    assert alone(daemon, AUTUMN[4]) == {"passes"}  # it needs the day before
    plain_trams.deliver(landing, AUTUMN[3], crowded=True)
    assert alone(daemon, AUTUMN[3]) == {"hourly_trams_are_not_too_full", "tickets_gates_passes"}
    assert rows_on_main(trams, "passes", AUTUMN[3]) is None
    plain_trams.deliver(landing, AUTUMN[3])
    assert alone(daemon, AUTUMN[3]) == set()
    assert backfill(daemon, AUTUMN[4:]) == "COMPLETED_SUCCESS"
    report(daemon, trams, AUTUMN)
    assert compare(trams, landing, AUTUMN) == {
        "hourly": 676,
        "passes": 21,
        "line_days": 28,
        "bulletin": 42,
    }
