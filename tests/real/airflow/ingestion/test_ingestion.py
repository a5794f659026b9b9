# mypy: ignore-errors
"""Ingestion branches in Airflow: ticks, releases, and sensors for an hour."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import TaskDeferred

import graveler_airflow as ga
from tests.harness.judges import no_bad_file
from tests.real.airflow.played import AT, context, final, tries


def path(hour, name):
    return f"input/2013/01/01/{hour:02}:00/{name}"


def tick(hour, on_refusal="hold", tried=1):
    operator = ga.GravelerIngestOperator(
        task_id="tick", repo="flights", gates=[no_bad_file], on_refusal=on_refusal
    )
    return operator.execute(at(hour, "tick", tried))


def at(hour, task_id="wait", tried=1):
    return context(task_id, tried, at=AT + timedelta(hours=hour - 5))


@pytest.fixture(scope="module")
def branch(repo):
    return repo.create_branch("ingest")


@pytest.fixture(scope="module")
def sensor():
    return ga.GravelerIngestSensor(
        task_id="wait", repo="flights", deferrable=True, poke_interval=0.02, timeout=60
    )


async def first(trigger):
    async with aclosing(trigger.run()) as events:
        async for event in events:
            return event.payload
    return None


def test_a_tick_publishes_the_hour_once_and_ends_a_sensors_wait(repo, branch, sensor):
    assert repo.ingestion().hour("2013-01-01T05:00Z") is None
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(at(5))
    name, arguments = deferred.value.trigger.serialize()
    assert name == "graveler_airflow.triggers.GravelerTrigger"
    assert arguments["hour"] == "2013-01-01T05:00:00+00:00"
    branch.put(path(5, "a"), b"1")
    operator = ga.GravelerIngestOperator(task_id="tick", repo="flights")
    one, two = tries(operator)
    head = repo.commit("main")
    assert one == two
    assert (one["hour"], one["state"], one["published"]) == (
        "2013-01-01T05:00Z",
        "published",
        head.id,
    )
    key = SimpleNamespace(dag_id="d", run_id="r1")
    link = operator.operator_extra_links[0].get_link(operator, ti_key=key)
    assert link.endswith(f"ref={head.id}")
    names = ("airflow.dag_id", "airflow.task_id", "airflow.try", "hour")
    assert [head.metadata[name] for name in names] == ["d", "tick", "1", "2013-01-01T05:00Z"]
    event = asyncio.run(first(type(deferred.value.trigger)(**arguments)))
    assert event == sensor.execute(at(5))
    assert event["commit"] == head.id


def test_a_held_hour_fails_without_retry_and_passes_when_mended(branch, sensor):
    branch.put(path(6, "x.bad"), b"1")
    for hour in (6, 10):  # nothing came in the second one, which is behind the first
        with final("^gate-failed: ingest is held: "):
            tick(hour)
        with pytest.raises(TaskDeferred):
            sensor.execute(at(hour))
    branch.delete(path(6, "x.bad"))
    assert tick(6, tried=2)["state"] == "published"
    assert tick(10, tried=2)["state"] == "empty"
    assert sensor.execute(at(10))["commit"] is None


def test_a_quarantined_hour_is_reported_and_released_once(repo, branch):
    branch.put(path(11, "x.bad"), b"1")
    done = tick(11, "quarantine")
    assert (done["state"], done["quarantined"]) == (
        "quarantined",
        ["quarantine-2013-01-01T11-00"],
    )
    assert done["refused"]
    release = ga.GravelerReleaseOperator(
        task_id="release", repo="flights", name=done["quarantined"][0], gates=[no_bad_file]
    )
    with final("^gate-failed: "):
        release.execute(at(12, "release"))
    release.gates = ()
    assert tries(release) == [repo.commit("main").id] * 2
