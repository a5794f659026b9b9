"""The DAGs under Airflow's own scheduler and executor, with a process for each task."""

import csv
import io
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from graveler.demo.flights import land, load_flights
from graveler.runs.state import RunState

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow")]
ONCE = ("resumed", "killed", "told_to_stop", "several", "mapped_runs", "changed_its_mind")
HOUR = "2013-01-01T12:00"


def keys_of(repository, prefix="output/flights/"):
    """Return hour, carrier and number of every flight on main, once for each row."""
    view = repository.ref("main")
    return sorted(
        (row["time_hour"].replace(tzinfo=UTC), row["carrier"], row["flight"])
        for entry in view.entries(prefix)
        for row in pq.read_table(io.BytesIO(view.get(entry.path))).to_pylist()
    )


def keys_at_source(flights, *hours):
    return sorted(
        (datetime.fromisoformat(row["time_hour"]), row["carrier"], int(row["flight"]))
        for hour in hours
        for row in csv.DictReader(io.StringIO(flights.flights.text(hour)))
    )


def run_of(repository, dag_id):
    (record,) = [run for run in repository.runs.list() if run.metadata["airflow.dag_id"] == dag_id]
    return record


def paths(view, prefix):
    return [entry.path for entry in view.entries(prefix)]


@pytest.fixture(scope="module")
def flights():
    return load_flights()


@pytest.fixture(scope="module")
def airflow(airflow, home, flights):
    """An Airflow in which every DAG has been started once."""
    for hour in flights.hours(3):
        land(flights, hour, home.landing)
    ten, eleven, twelve = (f"2013-01-01T{hour}:00:00Z" for hour in (10, 11, 12))
    airflow.backfill("flights_airflow", twelve, twelve)
    airflow.backfill("weather_airflow", ten, ten)
    airflow.backfill("chained", eleven, twelve)
    for dag_id in ONCE:
        airflow.trigger(dag_id)
    return airflow


@pytest.fixture(scope="module")
def published(airflow):
    """The state of the hour when it has ended."""
    return airflow.finished("flights_airflow")


def test_main_holds_every_row_of_the_hour_once(published, lake, flights):
    assert published == {HOUR: "success"}
    *_, twelve = flights.hours(3)
    assert keys_of(lake.repository("flights")) == keys_at_source(flights, twelve)


def test_the_task_killed_midway_left_only_its_second_try(published, airflow, home, lake):
    (run,) = airflow.runs("flights_airflow")
    tasks = airflow.tasks("flights_airflow", run["dag_run_id"])
    assert tasks["flights.transform"] == ("success", 2)
    repository = lake.repository("flights")
    lost = (home.marks / "killed in transform").read_text()
    assert repository.stores.objects.head(lost).size > 0  # the killed try had written files
    written = {entry.address for entry in repository.ref("main").entries()}
    assert lost not in written  # main does not have these files
    tries = [commit.metadata.get("graveler.try") for commit in repository.log("main")]
    assert tries.count("2") == 1


def test_a_stopped_task_commits_nothing_even_if_it_works_on(airflow, home, scenarios):
    assert list(airflow.finished("told_to_stop").values()) == ["failed"]
    (run,) = airflow.runs("told_to_stop")
    tasks = airflow.tasks("told_to_stop", run["dag_run_id"])
    assert tasks["scenarios.stops"][0] == tasks["scenarios.goes_on"][0] == "failed"
    assert not (home.marks / "went on").exists()
    record = run_of(scenarios, "told_to_stop")
    assert record.state is RunState.REAPED
    assert record.branch not in {branch.name for branch in scenarios.branches(hidden=True)}
    assert paths(scenarios.ref("main"), "stopped/") == []


def test_a_dag_may_have_several_runs_and_tasks_that_work_in_both(airflow, scenarios):
    assert list(airflow.finished("several").values()) == ["success"]
    row = b'{"name": "p", "size": 1}'
    assert paths(scenarios.ref("main"), "several/") == ["several/p", "several/told"]
    assert scenarios.ref("main").get("several/told") == row
    assert [entry.path for entry in scenarios.ref("other").entries()] == ["other/told"]
    records = [
        record for record in scenarios.runs.list() if record.metadata["airflow.dag_id"] == "several"
    ]
    assert {record.into for record in records} == {"main", "other"}
    assert {record.state for record in records} == {RunState.PUBLISHED}


def test_publishing_emits_an_asset_event_that_names_the_commit(airflow, scenarios):
    airflow.finished("several")
    (event,) = airflow.call("GET", "/api/v2/assets/events?source_dag_id=several")["asset_events"]
    extra = event["extra"]
    commit = scenarios.commit(extra["commit"])
    assert commit.metadata["graveler.run"] == extra["run"]
    assert commit.parents[0] == extra["previous"]
    assert (extra["repository"], extra["ref"]) == ("scenarios", "main")


def test_tasks_link_to_their_commits_and_commits_to_their_tasks(airflow, scenarios):
    airflow.finished("several")
    commits = {
        commit.metadata.get("airflow.task_id"): commit
        for commit in scenarios.log("main")
        if commit.metadata.get("airflow.dag_id") == "several"
    }
    again = commits["scenarios.other.again"]
    assert again.metadata["orchestrator"] == "airflow"
    assert "/dags/several/runs/" in again.metadata["url"]
    assert "/tasks/scenarios.other.again" in again.metadata["url"]
    assert again.metadata["airflow.try"] == again.metadata["graveler.try"] == "1"
    links = airflow.links("several", "scenarios.other.again")
    assert str(links["Graveler commit"]).endswith(f"repo=scenarios&ref={again.id}")
    assert "left=" in str(links["Graveler changes"])
    assert "dag_id=several" in str(links["Graveler run"])
    merged = commits[None]
    assert str(airflow.links("several", "scenarios.merge")["Graveler commit"]).endswith(merged.id)


def test_the_example_of_plain_python_publishes_its_hour(airflow, lake, flights):
    assert airflow.finished("weather_airflow") == {"2013-01-01T10:00": "success"}
    main = lake.repository("weather").ref("main")
    hour = "2013/01/01/10:00"
    assert paths(main, "weather/") == [
        f"weather/raw/{hour}/weather.csv",
        *(f"weather/temp/{hour}/{airport}" for airport in ("EWR", "JFK", "LGA")),
    ]
    assert main.get(f"weather/temp/{hour}/LGA") == b"39.92"


def test_each_mapped_task_group_publishes_a_run_of_its_own(airflow, scenarios):
    assert list(airflow.finished("mapped_runs").values()) == ["success"]
    mine = [run for run in scenarios.runs.list() if run.key.startswith("mapped_runs ")]
    keys = sorted(run.key.rpartition(" ")[2] for run in mine)
    assert keys == ["each.scenarios[0]", "each.scenarios[1]"]
    assert [(run.state, run.attempt) for run in mine] == [(RunState.PUBLISHED, 1)] * 2
    assert paths(scenarios.ref("main"), "airports/") == ["airports/EWR", "airports/JFK"]


def test_a_run_whose_task_raised_is_parked_and_a_clear_resumes(airflow, home, scenarios):
    assert list(airflow.finished("resumed").values()) == ["failed"]
    record = run_of(scenarios, "resumed")
    assert record.state is RunState.PARKED
    assert "scenarios.second failed" in record.reason
    first, stop = paths(scenarios.ref(record.branch), "resumed/")
    assert (first.split("/")[1], stop) == ("first", "resumed/stop")  # a teardown works in any case
    assert paths(scenarios.ref("main"), "resumed/") == []

    (home.marks / "mended").touch()
    (run,) = airflow.runs("resumed")
    airflow.clear("resumed", run["dag_run_id"], "scenarios.second")
    assert list(airflow.finished("resumed").values()) == ["success"]
    assert (home.marks / "first").read_text() == "ran\n"


def test_the_merge_has_the_work_of_a_teardown(airflow, scenarios):
    assert list(airflow.finished("resumed").values()) == ["success"]
    published = paths(scenarios.ref("main"), "resumed/")
    assert [path.split("/")[1] for path in published] == ["first", "second", "stop"]


def test_a_failure_hidden_by_a_clean_up_task_publishes_nothing(airflow, scenarios):
    """The kernel kills a task, and a later one succeeds in any case."""
    assert list(airflow.finished("killed").values()) == ["failed"]
    (run,) = airflow.runs("killed")
    tasks = airflow.tasks("killed", run["dag_run_id"])
    assert tasks["scenarios.clean_up"][0] == "success"
    assert tasks["scenarios.merge"][0] == "upstream_failed"
    assert tasks["scenarios.close_run"] == ("failed", 1)
    record = run_of(scenarios, "killed")
    assert record.state is RunState.PARKED
    assert paths(scenarios.ref(record.branch), "killed/") == ["killed/before"]
    assert paths(scenarios.ref("main"), "killed/") == []


def test_work_of_tasks_absent_the_next_time_is_not_published(airflow, home, scenarios):
    assert list(airflow.finished("changed_its_mind").values()) == ["failed"]
    parked = scenarios.ref(run_of(scenarios, "changed_its_mind").branch)
    names = ("part-1", "part-2", "skipped")
    assert paths(parked, "changed/") == [f"changed/{name}" for name in names]
    (home.marks / "decided").touch()
    (run,) = airflow.runs("changed_its_mind")
    airflow.clear_run("changed_its_mind", run["dag_run_id"])
    assert list(airflow.finished("changed_its_mind").values()) == ["success"]
    assert paths(scenarios.ref("main"), "changed/") == ["changed/part-1"]


def test_the_work_of_child_dags_is_published(airflow, scenarios):
    # after the others, because a task that waits for a DAG run has a slot of the executor
    for dag_id in ONCE:
        airflow.finished(dag_id)
    airflow.trigger("handed_over")
    assert list(airflow.finished("handed_over").values()) == ["success"]
    path = "/api/v2/variables?variable_key_pattern=graveler_%"
    (variable,) = airflow.call("GET", path)["variables"]
    record = run_of(scenarios, "handed_over")
    assert record.metadata["airflow.deployment"] == variable["value"]
    assert paths(scenarios.ref("main"), "regions/") == ["regions/north", "regions/south"]
    assert [*airflow.finished("region", 2).values()] == ["success"] * 2


def test_runs_that_depend_on_the_past_read_what_it_published(airflow, scenarios):
    assert [*airflow.finished("chained", 2).values()] == ["success"] * 2
    assert scenarios.ref("main").get("chained") == b"11"
