from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from graveler.errors import InvalidInputError
from graveler_airflow.dag import context as pages
from graveler_airflow.dag.context import (
    run_folder,
    run_hour,
    run_key,
    run_metadata,
    step_name,
    task_metadata,
)
from graveler_airflow.dag.handles import TaskStep

RUN = SimpleNamespace(
    dag_id="hourly",
    run_id="scheduled__x",
    run_after=datetime(2013, 1, 1, 4, 59, tzinfo=UTC),
)


@pytest.fixture(autouse=True)
def base(monkeypatch):
    """Set Airflow's base URL, which is empty at first, without importing Airflow."""
    results = {"base": ""}
    monkeypatch.setattr(pages, "_base", lambda: results["base"])
    return results


def context(**known: Any) -> Any:
    return {"dag_run": RUN, **known}


FIVE = datetime(2013, 1, 1, 5, tzinfo=UTC)
NAMES = ["partition_date", "data_interval_start", "logical_date"]


@pytest.mark.parametrize("known", [NAMES[position:] for position in range(len(NAMES))])
def test_the_hour_is_of_the_partition_the_interval_or_the_date(known):
    dates = {name: datetime(2013, 1, 1, 1 + NAMES.index(name), 30, 7, tzinfo=UTC) for name in known}
    unknown = dict.fromkeys(name for name in NAMES if name not in known)
    hour = run_hour(context(**unknown, **dates))
    assert hour == datetime(2013, 1, 1, 1 + NAMES.index(known[0]), tzinfo=UTC)


def test_the_hour_of_a_run_without_dates_is_the_one_due():
    assert run_hour(context()) == datetime(2013, 1, 1, 4, tzinfo=UTC)


def test_the_hour_is_in_utc():
    newfoundland = timezone(timedelta(hours=-3, minutes=-30))
    hour = run_hour(context(logical_date=datetime(2013, 1, 1, 1, 40, tzinfo=newfoundland)))
    assert hour == FIVE
    assert hour.utcoffset() == timedelta(0)


def test_a_partition_without_a_date_is_read_as_one():
    known = {"partition_date": None, "logical_date": datetime(2013, 1, 9, tzinfo=UTC)}
    assert run_hour(context(partition_key="2013-01-01T05:00", **known)) == FIVE
    assert run_hour(context(partition_key="2013-01-01T06:30+01:00", **known)) == FIVE


@pytest.mark.parametrize(
    ("known", "folder"),
    [
        ({"logical_date": FIVE + timedelta(minutes=15, seconds=7)}, "2013/01/01/05:15"),
        ({"partition_key": "2013-01-01T06:45+01:00"}, "2013/01/01/05:45"),
        ({"partition_key": "north", "logical_date": FIVE}, "north"),
        ({}, "2013/01/01/04:59"),
    ],
)
def test_the_folder_of_a_run_has_its_minute_or_partition(known, folder):
    assert run_folder(context(**known)) == folder


def test_a_partition_that_is_no_time_has_no_hour():
    north = context(partition_key="north", logical_date=FIVE)
    with pytest.raises(InvalidInputError, match="'north' is no time"):
        run_hour(north)
    assert run_metadata(north) == {
        "orchestrator": "airflow",
        "airflow.dag_id": "hourly",
        "airflow.run_id": "scheduled__x",
        "airflow.partition_key": "north",
    }


def test_a_second_run_of_a_partition_has_the_same_key():
    made = SimpleNamespace(**{**vars(RUN), "run_id": "scheduled__y"})
    keys = {run_key(context(dag_run=run, partition_key="05:00")) for run in (RUN, made)}
    assert keys == {"hourly 05:00"}


def test_a_run_of_no_partition_is_called_by_its_id():
    assert run_key(context(partition_key=None)) == "hourly scheduled__x"
    assert run_metadata(context()) == {
        "orchestrator": "airflow",
        "hour": "2013-01-01T04:00Z",
        "airflow.dag_id": "hourly",
        "airflow.run_id": "scheduled__x",
    }


def test_a_second_run_of_a_dag_has_a_key_of_its_own():
    assert run_key(context(partition_key="05:00"), "other") == "hourly 05:00 other"


def test_each_mapped_task_group_has_a_run_of_its_own():
    known = {"partition_key": "05:00", "ti": task(map_index=2)}
    assert run_key(context(**known), "each.flights") == "hourly 05:00 each.flights[2]"
    assert run_key(context(**known)) == "hourly 05:00[2]"
    assert run_key(context(partition_key="05:00", ti=task())) == "hourly 05:00"


def task(bundle: object = None, **known: Any) -> Any:
    known = {"task_id": "load", "map_index": -1, "try_number": 2, "log_url": "log", **known}
    return SimpleNamespace(bundle_instance=bundle, **known)


def test_the_instances_of_a_mapped_task_have_their_own_steps():
    assert step_name(context(ti=task())) == "load"
    mapped = context(ti=task(map_index=0))
    assert step_name(mapped) == "load[0]"
    assert step_name(mapped, "hourly") == "load[0]"
    assert task_metadata(mapped)["airflow.map_index"] == "0"
    assert "airflow.map_index" not in task_metadata(context(ti=task()))


def test_a_dag_run_that_was_given_the_run_has_its_own_steps():
    ti = task(map_index=0)
    assert step_name(context(ti=ti), "parent") == "hourly:load[0]"
    named = SimpleNamespace(**vars(RUN), conf={"graveler_name": "north pole"})
    for opener in ("parent", "hourly", ""):
        assert step_name(context(ti=ti, dag_run=named), opener) == "hourly north pole:load[0]"


def test_a_commit_names_the_try_and_links_back_to_airflow(base):
    ti = task()
    assert task_metadata(context(ti=ti))["airflow.try"] == "2"
    assert "url" not in task_metadata(context(ti=ti))
    base["base"] = "https://airflow.example"
    assert task_metadata(context(ti=ti))["url"] == "log"
    assert run_metadata(context(ti=ti))["url"] == (
        "https://airflow.example/dags/hourly/runs/scheduled__x"
    )


@pytest.mark.parametrize(
    ("bundle", "version"),
    [
        (SimpleNamespace(version="v7", supports_versioning=True), "v7"),
        (
            SimpleNamespace(
                version=None, supports_versioning=True, get_current_version=lambda: "0d1e"
            ),
            "0d1e",
        ),
        (SimpleNamespace(version=None, supports_versioning=False), None),
        (None, None),
    ],
)
def test_a_commit_records_the_version_of_the_code_if_known(bundle, version):
    assert run_metadata(context(ti=task(bundle))).get("code.version") == version


def test_the_folder_of_an_hour_with_several_runs_warns(caplog):
    often = SimpleNamespace(dag_id="often", timetable=SimpleNamespace(delta=timedelta(minutes=30)))
    known: Any = {"dag": often, "partition_key": "2013-01-01T05:30"}
    step = TaskStep.of(SimpleNamespace(), known)  # type: ignore[arg-type]
    assert step.partition_prefix("a") == "a/2013/01/01/05:30/"
    assert not caplog.text
    assert step.hour_prefix("a") == "a/2013/01/01/05:00/"
    assert "DAG 'often' has several runs in an hour" in caplog.text
