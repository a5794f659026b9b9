"""Runs that end without a publish, runs that never end, and their leases."""

import threading
from datetime import timedelta

import dagster as dg
import pytest

from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    build_lifecycle_sensors,
    build_reaper_sensor,
)
from dagster_graveler.resource import _shared_run
from graveler.config import load_config
from graveler.gates import gate
from graveler.lake.factory import connect
from graveler.lake.shared import lend_lake
from graveler.testing.clock import FakeClock
from tests.real.dagster.programs.endings import ended
from tests.real.dagster.programs.looking import on_main, paths


def materialize(resource, instance, *assets):
    return dg.materialize(
        assets,
        instance=instance,
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        raise_on_error=False,
    )


@gate
def no_secrets(candidate):
    assert not any("secret" in entry.path for entry in candidate.list()), "a secret"


@pytest.mark.parametrize(
    ("asset", "state", "found", "message"),
    [("plain", "PUBLISHED", ["plain/data"], "published"), ("secret", "PARKED", [], "a secret")],
)
def test_work_by_hand_is_published_behind_gates_if_wanted(
    repo, resource, instance, asset, state, found, message
):
    @dg.asset(name=asset)
    def made() -> str:
        return "1"

    sensors = build_lifecycle_sensors(publish_adhoc=True, gates=[no_secrets])
    defs = dg.Definitions(sensors=sensors, resources={"graveler": resource})
    assert message in ended(defs, instance, materialize(resource, instance, made).run_id)
    assert [record.state for record in repo.runs.list()] == [state]
    assert on_main(repo) == found


def test_a_failed_run_is_dropped_where_nothing_of_it_shall_stay(lake, repo, instance):
    resource = GravelerResource(lake=lake, repository="flights", on_failure="drop")

    @dg.asset
    def made() -> str:
        return "1"

    @dg.asset(deps=[made])
    def broken() -> None:
        raise ConnectionError("lost")

    defs = dg.Definitions(sensors=build_lifecycle_sensors(), resources={"graveler": resource})
    result = materialize(resource, instance, made, broken)
    assert "is REAPED" in ended(defs, instance, result.run_id)
    assert [branch.name for branch in repo.branches(hidden=True)] == ["main"]


def test_the_reaper_parks_a_run_whose_machine_is_gone(repo, resource, instance, lake):
    with repo.runs.open("dead").step("written") as step:
        step.put("a", b"1")
    reaper = build_reaper_sensor()

    def look():
        return reaper(dg.build_sensor_context(instance, resources={"graveler": resource}))

    assert look().skip_message == "reaped 0 runs"
    clock = FakeClock(repo.stores.clock.now() + timedelta(hours=1))
    with connect(load_config(lake), clock=clock) as an_hour_later, lend_lake(an_hour_later):
        assert look().skip_message == "reaped 1 runs"
        assert look().skip_message == "reaped 0 runs"
    record = repo.runs.get("dead")
    assert record.state == "PARKED"
    assert "no sign of life" in record.reason
    assert paths(repo.ref(record.branch)) == ["a"]
    assert on_main(repo) == []


def lease_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("lease of")]


def wait_for_leases():
    """Wait until threads that renew leases end."""
    for renewals in lease_threads():
        renewals.join(10)
    assert lease_threads() == []


def test_a_lease_is_not_renewed_after_the_dagster_run(lake, repo, instance):
    @dg.op
    def opens(context: dg.OpExecutionContext, graveler: GravelerResource) -> None:
        graveler.run(context)

    short = GravelerResource(lake=lake, repository="flights", lease_seconds=0.3)

    @dg.job(resource_defs={"graveler": short})
    def job():
        opens()

    job.execute_in_process(instance=instance)
    wait_for_leases()
    assert [record.state for record in repo.runs.list()] == ["OPEN"]


def test_a_lease_is_not_renewed_if_dagster_gives_no_answer(repo, instance, monkeypatch, caplog):
    def lost(run_id):
        raise ConnectionError("no instance")

    run = repo.runs.open("long", lease=timedelta(seconds=0.3))
    monkeypatch.setattr(instance, "get_run_by_id", lost)
    _shared_run(run, instance, "none")
    wait_for_leases()
    assert "cannot read from Dagster whether its run is over" in caplog.text
