"""The meters on a real Airflow with its scheduler, compared row by row with the plain calculation."""

import json
import shutil
from datetime import UTC, date, timedelta
from pathlib import Path

import pandas as pd
import pytest

import graveler.frames
from tests.harness.wires import free_port
from tests.long.projects import plain_meters
from tests.real.airflow.home import AIRFLOW, Home

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow")]
SPRING = [date(2026, 3, 28) + timedelta(days=number) for number in range(2)]
AUTUMN = [date(2026, 10, 22) + timedelta(days=number) for number in range(7)]


class MetersHome(Home):
    """A home for the DAGs of the meters."""

    @property
    def env(self):
        connection = {"conn_type": "graveler", "host": str(self.lake)}
        return {
            **super().env,
            "AIRFLOW_VAR_METERS_LANDING": str(self.landing),
            "AIRFLOW_CONN_GRAVELER_DEFAULT": json.dumps(connection),
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "True",  # else events start no DAG
        }


@pytest.fixture
def home(tmp_path):
    """An Airflow home with the DAGs of the meters, and their lake."""
    home = MetersHome(tmp_path, free_port())
    home.dags.mkdir()
    shutil.copy(Path(__file__).with_name("airflow_meters.py"), home.dags)
    with graveler.init(home.lake) as lake:
        lake.create_repository("meters").protection.add("main")
    home.run(AIRFLOW, "db", "migrate")
    return home


@pytest.fixture
def airflow(home):
    with home.service("triggerer"), home.services() as api:
        api.sign_in()
        yield api


@pytest.fixture
def meters(home):
    with graveler.open(home.lake) as lake:
        yield lake.repository("meters")


def midnight(day):
    return pd.Timestamp(day, tz="Europe/Berlin")


def backfill(airflow, days):
    """Backfill days; without a zone Airflow would take the dates as midnights in UTC.

    Airflow allows one backfill of a DAG at a time, and on SQLite none while another process writes.
    """

    def is_accepted():
        begun = airflow.call("GET", "/api/v2/backfills?dag_id=meters")["backfills"]
        if not all(backfill["completed_at"] for backfill in begun):
            return False
        try:
            airflow.backfill(
                "meters", midnight(days[0]).isoformat(), midnight(days[-1]).isoformat()
            )
        except AssertionError as error:
            if "503" not in str(error):
                raise
            return False
        return True

    airflow.wait(is_accepted, f"the backfill from {days[0]} to be accepted")


def run_of(airflow, day):
    """Return the DAG run of a day."""
    (run,) = [
        run for run in airflow.runs("meters") if pd.Timestamp(run["logical_date"]) == midnight(day)
    ]
    return run


def rows_on_main(meters, table, day):
    """Return the rows of a table and day on main, sorted, or None if there are none."""
    folder = f"{table}/{midnight(day).astimezone(UTC):%Y/%m/%d/%H:%M}/"
    main = meters.ref("main")
    if not list(main.list(folder)):
        return None
    frame = graveler.frames.read(main, folder, pd.DataFrame)
    columns = plain_meters.COLUMNS[table]
    assert set(frame.columns) == set(columns)
    return sorted(frame[columns].itertuples(index=False, name=None))


def compare(meters, landing, days):
    """Compare main with the plain calculation; return the number of equal rows of each table."""
    counts = {}
    for table, of_days in plain_meters.calculate(landing, days).items():
        for day, rows in of_days.items():
            assert rows_on_main(meters, table, day) == rows, f"{table} of {day}"
        counts[table] = sum(map(len, of_days.values()))
    return counts


def test_main_is_as_the_plain_calculation(airflow, home, meters):
    for day in [*SPRING, *AUTUMN]:
        plain_meters.deliver(home.landing, day, lacks="m-04" if day == AUTUMN[3] else "")

    backfill(airflow, SPRING)
    assert set(airflow.finished("meters", len(SPRING)).values()) == {"success"}

    backfill(airflow, AUTUMN)
    bad, after = AUTUMN[3], AUTUMN[4]
    airflow.wait(lambda: run_of(airflow, after)["state"] == "failed", f"the end of {after}")
    assert run_of(airflow, bad)["state"] == "failed"
    assert [rows_on_main(meters, "balances", day) is not None for day in AUTUMN] == [True] * 3 + [
        False
    ] * 4

    plain_meters.deliver(home.landing, bad)
    airflow.clear("meters", run_of(airflow, bad)["dag_run_id"], "meters.intake")
    airflow.wait(lambda: run_of(airflow, bad)["state"] == "success", f"a second try of {bad}")
    airflow.clear_run("meters", run_of(airflow, after)["dag_run_id"])
    assert set(airflow.finished("meters", len(SPRING + AUTUMN)).values()) == {"success"}

    airflow.wait(
        lambda: all(rows_on_main(meters, "invoices", day) for day in SPRING + AUTUMN),
        "all invoices",
    )
    assert compare(meters, home.landing, SPRING) == {"costs": 235, "balances": 10, "invoices": 6}
    assert compare(meters, home.landing, AUTUMN) == {"costs": 845, "balances": 35, "invoices": 21}
