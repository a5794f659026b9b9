# mypy: ignore-errors
"""Sensors on a real lake wait in a worker, by reschedules and in the triggerer; and assets."""

from itertools import count
from types import SimpleNamespace

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException, TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors

from graveler.base.clock import SystemClock
from graveler.errors import GravelerError, InvalidInputError
from graveler_airflow import (
    GravelerCommitSensor,
    GravelerObjectSensor,
    GravelerPartitionsOperator,
    graveler_asset,
    graveler_partitions,
)
from graveler_airflow.assets import create_asset
from tests.real.airflow.played import context, final

NAMES = (f"waited-for-{number}" for number in count())
DEFERRABLE = {"deferrable": True, "start_from_trigger": True}


def commit(repo, path, **metadata):
    main = repo.branch("main")
    main.put(path, path.encode())
    return main.commit(f"adds {path}", metadata=metadata).id


@pytest.fixture
def flights(own):
    """A new repository with a commit."""
    repo = own.create_repository(next(NAMES))
    commit(repo, "before")
    return repo


@pytest.fixture
def begun(flights):
    """The context of a task, in any process, of a DAG run that began after that commit."""
    return context(at=SystemClock().now(), get_first_reschedule_date=lambda _: None)


@pytest.fixture
def sensor(flights):
    def sensor(kind=GravelerCommitSensor, **given):
        return kind(**{"task_id": "wait", "repo": flights.name, "deferrable": False, **given})

    return sensor


def ids(range_):
    return [events["commit"] for events in range_["commits"]]


def test_the_range_begins_with_the_dag_run_not_the_sensor(flights, begun, sensor):
    before = flights.commit("main").id
    assert sensor().poke(begun).is_done is False
    made = [commit(flights, f"input/{n}", hour=f"2013-01-01T0{n}:00Z") for n in range(2)]
    range_ = sensor().execute(begun)
    assert (range_["since"], range_["to"]) == (before, made[-1])
    assert ids(range_) == made
    assert range_["partitions"] == ["2013-01-01T00:00", "2013-01-01T01:00"]
    assert range_["rewound"] is False


def test_only_commits_that_change_the_prefix_count(flights, begun, sensor):
    first = commit(flights, "input/1")
    second = commit(flights, "output/1")
    assert ids(sensor(prefix="output/").execute(begun)) == [second]
    assert sensor(prefix="no/").poke(begun).is_done is False
    # a range can begin where the last one ended
    after = sensor(since=first).execute(begun)
    assert (after["since"], ids(after)) == (first, [second])


def test_a_missing_commit_ends_the_wait_a_repository_does_not(begun, sensor):
    with final("since 'unknown': no branch, tag or commit"):
        sensor(since="unknown").execute(begun)
    assert sensor(repo="trains").poke(begun).is_done is False


def test_a_rescheduled_sensor_misses_nothing_between_two_turns(flights, begun, sensor):
    """Each turn of a rescheduled sensor is a separate process. Here it is a separate object."""
    with pytest.raises(AirflowRescheduleException):
        sensor(mode="reschedule").execute(begun)
    between = commit(flights, "between two turns")
    assert ids(sensor(mode="reschedule").execute(begun)) == [between]


def test_a_deferred_sensor_hands_the_trigger_the_same_beginning(flights, begun, sensor):
    given = {"prefix": "deferred/", "deferrable": True, "poke_interval": 7, "timeout": 70}
    sent = []
    for kind in (GravelerCommitSensor, GravelerObjectSensor):
        waiting = sensor(kind, **given)
        with pytest.raises(TaskDeferred) as deferred:
            waiting.execute(begun)
        assert deferred.value.timeout.seconds == 70
        assert getattr(waiting, deferred.value.method_name)(begun, {"to": "x"}) == {"to": "x"}
        path, arguments = deferred.value.trigger.serialize()
        assert path == "graveler_airflow.triggers.GravelerTrigger"
        assert (arguments["prefix"], arguments["poll_interval"]) == ("deferred/", 7)
        sent.append(arguments)
    commits, files = sent
    assert (commits["waits_for"], files["waits_for"]) == ("commits", "files")
    assert commits["begun"] == begun["dag_run"].start_date.isoformat()
    assert files["at_least"] == 1
    made = commit(flights, "deferred/1")  # what exists already is returned without deferring
    assert sensor(prefix="deferred/", deferrable=True).execute(begun)["to"] == made


def test_files_are_returned_with_the_commit_that_pins_them(flights, begun, sensor):
    first = commit(flights, "landed/1")
    two = sensor(GravelerObjectSensor, prefix="landed/", at_least=2)
    assert two.poke(begun).is_done is False
    second = commit(flights, "landed/2")
    event = two.execute(begun)
    assert (event["commit"], event["paths"]) == (second, ["landed/1", "landed/2"])
    one = sensor(GravelerObjectSensor, prefix="landed/1")
    assert one.execute(begun)["paths"] == ["landed/1"]
    new = sensor(GravelerObjectSensor, prefix="landed/", since=first)
    assert new.execute(begun)["paths"] == ["landed/2"]
    with pytest.raises(InvalidInputError):
        sensor(GravelerObjectSensor, prefix="landed/", at_least=0)


def test_a_sensor_that_starts_in_the_triggerer_takes_only_text(sensor):
    said = r"with start_from_trigger it is text: give a template such as \{\{ ti.xcom_pull"
    with pytest.raises(InvalidInputError, match=said):
        sensor(since=sensor().output, **DEFERRABLE)
    starting = sensor(prefix="{{ ds }}/", **DEFERRABLE).start_trigger_args
    assert starting.trigger_kwargs["prefix"] == "{{ ds }}/"
    assert sensor(start_from_trigger=True).start_from_trigger is False


TICK = {
    "commit": "g",
    "metadata": {
        "graveler.ingest": "ingest",
        "airflow.partition_key": "2013-01-01T09:00:00",
        "hour": "2013-01-01T09:00Z",
        "hours": "3",
    },
    "hours": {
        "on-time": ["2013-01-01T09:00"],
        "late": ["2013-01-01T05:00", "2013-01-01T08:00"],
        "deleted": ["2013-01-01T01:00"],
    },
}
NO_PARTITIONS = [{"commit": "d", "metadata": {"hour": "soon"}}, {"commit": "e", "metadata": {}}]


def fold(payloads, *others, **options):
    """Execute an operator with events; return its result and what its asset reports."""
    watched = graveler_asset("flights", "flights")
    hours = graveler_partitions("flights by hour", "flights")
    operator = GravelerPartitionsOperator(task_id="hours", outlets=[hours], **options)
    events = [SimpleNamespace(extra={"payload": each}) for each in payloads]
    events += [SimpleNamespace(extra=each) for each in others]
    reported = OutletEventAccessors()
    known = {"triggering_asset_events": {watched: events}, "outlet_events": reported}
    return operator.execute(known), reported[hours]


def test_folded_commits_are_reported_by_partition():
    both = {"airflow.partition_key": "north", "hour": "2013-01-01T05:00Z"}
    payloads = [
        {"commit": "a", "metadata": {"hour": "2013-01-01T05:00Z"}},
        {"commit": "b", "metadata": both},
        {"commit": "c", "metadata": {"hour": "2013-01-01T06:30+01:00"}},
        TICK,
        *NO_PARTITIONS,
    ]
    published = {"commit": "f", "hour": "2013-01-01T07:00Z"}  # the event of a run's own publish
    returned, accessor = fold(payloads, published, {"from": "another process"})
    assert returned == {
        "2013-01-01T05:00": ["a", "g"],
        "north": ["b"],
        "2013-01-01T05:30": ["c"],
        "2013-01-01T07:00": ["f"],
        "2013-01-01T08:00": ["g"],
        "2013-01-01T09:00": ["g"],
    }
    assert sorted(accessor.partition_keys) == sorted(returned)
    assert accessor.extra == {"commits": returned}
    assert list(fold([TICK], hours=["deleted"])[0]) == ["2013-01-01T01:00"]


def test_commits_that_cannot_be_folded_fail_or_skip_the_task():
    with pytest.raises(InvalidInputError, match="about 3 partitions, more than 2"):
        fold([TICK], most=2)
    with pytest.raises(GravelerError, match="its tree is gone"):
        fold([{**TICK, "partitions": [], "expired": "its tree is gone"}], hours=["deleted"])
    with pytest.raises(AirflowSkipException, match=r"^none of 2 commits is about a partition"):
        fold(NO_PARTITIONS)
    with pytest.raises(InvalidInputError, match="give the asset of partitions"):
        GravelerPartitionsOperator(task_id="nowhere")


def test_an_asset_is_watched_by_a_trigger_of_its_own():
    asset = graveler_asset("x", "flights", "dev", "input/", poll_interval=5)
    assert asset.uri == "grav://flights/dev/input"
    (watcher,) = asset.watchers
    path, given = watcher.trigger.serialize()
    assert path == "graveler_airflow.triggers.GravelerCommitTrigger"
    assert (given["repo"], given["ref"], given["prefix"]) == ("flights", "dev", "input/")
    assert given["asset"] == "x"  # each asset of a branch has its own cursor
    assert "begun" not in given  # with it each parse of the file would make a new trigger
    assert graveler_asset("x", "flights", watch=False).watchers == []


def test_addresses_of_one_thing_are_one():
    hours = graveler_partitions("y", "flights", prefix="input")
    assert hours.uri == "grav://flights/main/input?by=partition"
    other = graveler_asset("x", "flights", watch=False, graveler_conn_id="other")
    assert other.uri == "grav://other@flights/main"
    colons = "grav://flights/main/input/2013/01/01/05:00"
    for form in (f"{colons}/", colons.replace("//", "//graveler_default@")):
        assert Asset(form).uri == colons
    assert create_asset(repo="flights", prefix="a b/").uri == "grav://flights/main/a%20b"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("grav://Flights/main", "grav://repository/ref/prefix"),
        ("grav://flights", ""),
        ("grav://flights/main?x=1", r"\?by=partition"),
        ("grav://f/main~1", ""),
    ],
)
def test_addresses_without_repository_and_branch_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        Asset(wrong)
    with pytest.raises(InvalidInputError):
        graveler_asset("x", "flights", "main~1")
