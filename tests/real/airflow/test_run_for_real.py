"""The DAGs under Airflow's own scheduler and executor, with a process for each task."""

import csv
import io
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from graveler.demo.flights import land, load_flights
from graveler.runs.state import RunState

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow")]
ONCE = (
    "side_by_side",
    "resumed",
    "killed",
    "told_to_stop",
    "hidden",
    "gated",
    "several",
    "mapped",
    "mapped_runs",
    "dropped",
    "changed_its_mind",
    "torn_down",
)
HOURS = ["2013-01-01T10:00", "2013-01-01T11:00", "2013-01-01T12:00"]


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
        land(flights, hour, home.landing, damaged=hour.hour == 11)
    airflow.backfill("flights_airflow", "2013-01-01T10:00:00Z", "2013-01-01T12:00:00Z")
    airflow.backfill("weather_airflow", "2013-01-01T10:00:00Z", "2013-01-01T10:00:00Z")
    airflow.backfill("chained", "2013-01-01T10:00:00Z", "2013-01-01T12:00:00Z")
    for dag_id in ONCE:
        airflow.trigger(dag_id)
    return airflow


@pytest.fixture(scope="module")
def published(airflow):
    """The states of the three hours when they have ended."""
    return airflow.finished("flights_airflow", 3)


def test_main_holds_exactly_the_good_hours_every_row_once(published, lake, flights):
    assert published == dict(zip(HOURS, ["success", "failed", "success"], strict=True))
    ten, _, twelve = flights.hours(3)
    assert keys_of(lake.repository("flights")) == keys_at_source(flights, ten, twelve)


def test_the_task_killed_midway_left_only_its_second_try(published, airflow, home, lake):
    (run_id,) = [
        run["dag_run_id"]
        for run in airflow.runs("flights_airflow")
        if run["partition_key"] == HOURS[2]
    ]
    assert airflow.tasks("flights_airflow", run_id)["flights.transform"] == ("success", 2)
    repository = lake.repository("flights")
    lost = (home.marks / "killed in transform").read_text()
    assert repository.stores.objects.head(lost).size > 0  # the killed try had written files
    written = {entry.address for entry in repository.ref("main").entries()}
    assert lost not in written  # main does not have these files
    tries = [commit.metadata.get("graveler.try") for commit in repository.log("main")]
    assert tries.count("2") == 1


def test_the_branch_of_the_damaged_hour_is_parked_and_readable(published, lake):
    repository = lake.repository("flights")
    (parked,) = repository.runs.list(RunState.PARKED)
    assert parked.key == f"flights_airflow {HOURS[1]}"
    assert "no duplicates" in parked.reason
    assert [verdict.gate for verdict in parked.verdicts if verdict.refuses] == [
        "no duplicates",
        "plausible delays",
    ]
    view = repository.ref(parked.branch)
    assert view.exists("input/2013/01/01/11:00/flights.csv")
    assert len(paths(view, "output/flights/2013/01/01/11:00/")) == 1
    assert list(repository.branch("main").list("output/flights/2013/01/01/11:00/")) == []


def test_the_commits_of_main_name_their_dag_run(published, lake):
    merges = [
        commit.metadata
        for commit in lake.repository("flights").log("main", first_parent=True)
        if "graveler.published" in commit.metadata
    ]
    assert {merge["airflow.partition_key"] for merge in merges} == {HOURS[0], HOURS[2]}
    assert {merge["hour"] for merge in merges} == {"2013-01-01T10:00Z", "2013-01-01T12:00Z"}
    assert all(merge["airflow.run_id"].startswith("backfill__") for merge in merges)


def test_a_damaged_hour_is_published_once_it_is_whole(published, airflow, home, lake, flights):
    hours = flights.hours(3)
    land(flights, hours[1], home.landing)
    (run_id,) = [
        run["dag_run_id"]
        for run in airflow.runs("flights_airflow")
        if run["partition_key"] == HOURS[1]
    ]
    airflow.clear("flights_airflow", run_id, "flights.ingest")
    assert airflow.finished("flights_airflow", 3) == dict.fromkeys(HOURS, "success")
    repository = lake.repository("flights")
    assert keys_of(repository) == keys_at_source(flights, *hours)
    assert repository.runs.get(f"flights_airflow {HOURS[1]}").attempt == 2
    assert [branch.name for branch in repository.branches(hidden=True)] == ["main"]


def test_tasks_side_by_side_do_not_commit_each_others_files(airflow, home, scenarios):
    assert list(airflow.finished("side_by_side").values()) == ["success"]
    # the look came when the left task was done, and half of the right one
    assert (home.marks / "seen").read_text().split() == ["side/left-1", "side/left-2"]
    assert paths(scenarios.ref("main"), "side/") == [
        "side/left-1",
        "side/left-2",
        "side/right-1",
        "side/right-2",
    ]
    commits = {
        commit.metadata["graveler.step"]: {
            change.path for change in scenarios.diff(commit.parents[0], commit.id)
        }
        for commit in scenarios.log("main")
        if commit.metadata.get("graveler.run") == run_of(scenarios, "side_by_side").key
        and "graveler.step" in commit.metadata
    }
    assert commits == {
        "scenarios.left": {"side/left-1", "side/left-2"},
        "scenarios.right": {"side/right-1", "side/right-2"},
    }


def test_a_run_whose_task_raised_is_parked_and_a_clear_resumes(airflow, home, scenarios):
    assert list(airflow.finished("resumed").values()) == ["failed"]
    record = run_of(scenarios, "resumed")
    assert record.state is RunState.PARKED
    assert "scenarios.second failed" in record.reason
    (first,) = paths(scenarios.ref(record.branch), "resumed/")
    assert first.startswith("resumed/first/")
    assert paths(scenarios.ref("main"), "resumed/") == []

    (home.marks / "mended").touch()
    (run,) = airflow.runs("resumed")
    airflow.clear("resumed", run["dag_run_id"], "scenarios.second")
    assert list(airflow.finished("resumed").values()) == ["success"]
    published, second = paths(scenarios.ref("main"), "resumed/")
    assert published == first
    assert second.startswith("resumed/second/")
    assert (home.marks / "first").read_text() == "ran\n"

    # again, after the publish: the files that the task added are removed
    airflow.clear("resumed", run["dag_run_id"], "scenarios.first")
    assert list(airflow.finished("resumed").values()) == ["success"]
    again = paths(scenarios.ref("main"), "resumed/")
    assert [path.split("/")[1] for path in again] == ["first", "second"]
    assert not {*again} & {first, second}


def test_a_task_killed_by_the_kernel_parks_the_run(airflow, scenarios):
    assert list(airflow.finished("killed").values()) == ["failed"]
    record = run_of(scenarios, "killed")
    assert record.state is RunState.PARKED
    assert paths(scenarios.ref(record.branch), "killed/") == ["killed/before"]
    assert paths(scenarios.ref("main"), "killed/") == []


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


def test_a_failure_hidden_by_a_clean_up_task_publishes_nothing(airflow, scenarios):
    assert list(airflow.finished("hidden").values()) == ["failed"]
    (run,) = airflow.runs("hidden")
    tasks = airflow.tasks("hidden", run["dag_run_id"])
    assert tasks["scenarios.clean_up"][0] == "success"
    assert tasks["scenarios.merge"][0] == "upstream_failed"
    assert tasks["scenarios.close_run"] == ("failed", 1)
    assert run_of(scenarios, "hidden").state is RunState.PARKED
    assert paths(scenarios.ref("main"), "hidden/") == []


def test_a_gate_task_fails_at_once_and_a_warning_one_does_not(airflow, home, scenarios):
    assert list(airflow.finished("gated").values()) == ["failed"]
    (run,) = airflow.runs("gated")
    tasks = airflow.tasks("gated", run["dag_run_id"])
    assert tasks["scenarios.is_small"] == ("success", 1)
    assert tasks["scenarios.is_not_empty"] == ("failed", 1)
    assert tasks["scenarios.merge"][0] == "upstream_failed"
    reason = run_of(scenarios, "gated").reason
    assert "scenarios.is_not_empty failed (is_not_empty: it returned False)" in reason
    (log,) = (home.folder / "logs/dag_id=gated").glob(
        "*/task_id=scenarios.is_not_empty/attempt=1.log"
    )
    assert log.read_text("utf-8").count("is_not_empty: it returned False") == 1
    assert paths(scenarios.ref("main"), "gated/") == []


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
    assert airflow.finished("weather_airflow") == {HOURS[0]: "success"}
    main = lake.repository("weather").ref("main")
    hour = "2013/01/01/10:00"
    assert paths(main, "weather/") == [
        f"weather/raw/{hour}/weather.csv",
        *(f"weather/temp/{hour}/{airport}" for airport in ("EWR", "JFK", "LGA")),
    ]
    assert main.get(f"weather/temp/{hour}/LGA") == b"39.92"


def test_the_gate_of_the_example_accepts_a_repeated_hour(airflow, lake):
    airflow.finished("weather_airflow")
    (run,) = airflow.runs("weather_airflow")
    airflow.clear_run("weather_airflow", run["dag_run_id"])
    assert airflow.finished("weather_airflow") == {HOURS[0]: "success"}
    (record,) = lake.repository("weather").runs.list()
    assert len(record.publishes) == 2


def test_the_instances_of_a_mapped_task_are_steps_of_their_own(airflow, scenarios):
    assert list(airflow.finished("mapped").values()) == ["success"]
    results = paths(scenarios.ref("main"), "mapped/")
    assert [path.rpartition("/")[2] for path in results] == ["part-1", "part-2", "part-3"]
    assert len({path.rpartition("/")[0] for path in results}) == 1


def test_each_mapped_task_group_publishes_a_run_of_its_own(airflow, scenarios):
    assert list(airflow.finished("mapped_runs").values()) == ["success"]
    mine = [run for run in scenarios.runs.list() if run.key.startswith("mapped_runs ")]
    keys = sorted(run.key.rpartition(" ")[2] for run in mine)
    assert keys == ["each.scenarios[0]", "each.scenarios[1]"]
    assert [(run.state, run.attempt) for run in mine] == [(RunState.PUBLISHED, 1)] * 2
    assert paths(scenarios.ref("main"), "airports/") == ["airports/EWR", "airports/JFK"]


def test_a_run_that_lost_half_of_its_work_is_not_published(airflow, home, scenarios):
    assert list(airflow.finished("dropped").values()) == ["failed"]
    (home.marks / "second mended").touch()
    (run,) = airflow.runs("dropped")
    airflow.clear("dropped", run["dag_run_id"], "scenarios.second")
    assert list(airflow.finished("dropped").values()) == ["failed"]
    tasks = airflow.tasks("dropped", run["dag_run_id"])
    assert tasks["scenarios.first"] == ("success", 1)
    assert tasks["scenarios.second"][0] == "success"
    assert tasks["scenarios.merge"] == ("failed", 1)  # a new try would end the same
    assert paths(scenarios.ref("main"), "dropped/") == []

    airflow.clear_run("dropped", run["dag_run_id"])
    assert list(airflow.finished("dropped").values()) == ["success"]
    assert paths(scenarios.ref("main"), "dropped/") == ["dropped/first", "dropped/second"]


def test_work_of_tasks_absent_the_next_time_is_not_published(airflow, home, scenarios):
    assert list(airflow.finished("changed_its_mind").values()) == ["failed"]
    parked = scenarios.ref(run_of(scenarios, "changed_its_mind").branch)
    assert set(paths(parked, "changed/")) > {"changed/left", "changed/part-3"}
    (home.marks / "decided").touch()
    (run,) = airflow.runs("changed_its_mind")
    airflow.clear_run("changed_its_mind", run["dag_run_id"])
    assert list(airflow.finished("changed_its_mind").values()) == ["success"]
    results = paths(scenarios.ref("main"), "changed/")
    assert results == ["changed/part-1", "changed/part-2", "changed/right", "changed/same"]


def test_the_work_of_child_dags_is_published_or_refused(airflow, scenarios):
    # one after the other, because a task that waits for a DAG run has a slot of the executor
    airflow.trigger("handed_over")
    assert list(airflow.finished("handed_over").values()) == ["success"]
    (variable,) = airflow.call("GET", "/api/v2/variables?variable_key_pattern=graveler_%")[
        "variables"
    ]
    record = run_of(scenarios, "handed_over")
    assert record.metadata["airflow.deployment"] == variable["value"]
    view = scenarios.ref("main")
    assert paths(view, "regions/handed_over/") == [
        "regions/handed_over/north",
        "regions/handed_over/south",
    ]
    # a new attempt gives its own handle to new DAG runs
    (run,) = airflow.runs("handed_over")
    airflow.clear_run("handed_over", run["dag_run_id"])
    assert list(airflow.finished("handed_over").values()) == ["success"]
    assert run_of(scenarios, "handed_over").attempt == 2
    # without names one of the two is refused, and nothing is published
    airflow.trigger("handed_over_twice")
    assert list(airflow.finished("handed_over_twice").values()) == ["failed"]
    assert paths(view, "regions/handed_over_twice/") == []
    assert run_of(scenarios, "handed_over_twice").state is RunState.PARKED
    assert sorted(airflow.finished("region", 6).values()) == ["failed", *["success"] * 5]


def test_runs_that_depend_on_the_past_read_what_it_published(airflow, scenarios):
    assert [*airflow.finished("chained", 3).values()] == ["success"] * 3
    assert scenarios.ref("main").get("chained") == b"111"


def test_the_merge_has_the_work_of_a_teardown(airflow, home, scenarios):
    assert list(airflow.finished("torn_down").values()) == ["failed"]
    (run,) = airflow.runs("torn_down")
    tasks = airflow.tasks("torn_down", run["dag_run_id"])
    assert tasks["scenarios.stop"][0] == "success"
    assert tasks["scenarios.merge"][0] == "upstream_failed"
    assert paths(scenarios.ref("main"), "torn/") == []
    (home.marks / "torn mended").touch()
    airflow.clear("torn_down", run["dag_run_id"], "scenarios.works")
    assert list(airflow.finished("torn_down").values()) == ["success"]
    assert paths(scenarios.ref("main"), "torn/") == ["torn/stop", "torn/work"]
