"""Which attempt a Dagster run works in, also when the code changes, and what a new one starts from."""

from typing import Any

import dagster as dg
import pytest

from dagster_graveler import GravelerResource, graveler_definitions
from dagster_graveler import context as contexts
from tests.real.dagster.programs.looking import tree

DAYS = dg.StaticPartitionsDefinition(["mon"])
FAILING = [False]


@dg.asset(partitions_def=DAYS)
def raw(context: dg.AssetExecutionContext) -> str:
    return context.run.tags.get("version", "1")


@dg.asset(partitions_def=DAYS)
def total(raw: str) -> str:
    if FAILING[0]:
        raise ConnectionError("lost")
    return f"of {raw}"


@pytest.fixture
def launch(resource, instance):
    """Launch all steps of a day by the job, or as assets picked by hand."""
    defs = graveler_definitions([raw, total], resource, name="days")
    by_hand = defs.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(name) for name in ("raw", "total", "days_publish")]

    def launch(version, *, picked=False, fails=False):
        FAILING[0] = fails
        given: dict[str, Any] = {"asset_selection": keys} if picked else {}
        job = by_hand if picked else defs.resolve_job_def("days_job")
        result = job.execute_in_process(
            instance=instance,
            partition_key="mon",
            tags={"version": version},
            raise_on_error=False,
            **given,
        )
        assert result.success != fails

    return launch


def test_steps_share_a_branch_when_the_code_changes_between(repo, resource, instance, monkeypatch):
    @dg.asset
    def first(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
        graveler.run(context)
        # the next process loads definitions without the pipeline, as after a change of the code
        monkeypatch.setattr(contexts, "_pipelines", {})
        contexts._runs.clear()
        return "first"

    @dg.asset
    def second(first: str) -> str:
        return f"second of {first}"

    defs = graveler_definitions([first, second], resource, name="two")
    done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(name) for name in ("first", "second", "two_publish")],
    )
    assert done.success
    assert len(list(repo.runs.list())) == 1
    assert repo.ref("main").get("second/data") == b"second of first"
    assert instance.get_run_by_id(done.run_id).tags["graveler/job"] == "two_job"


def test_a_parked_day_is_published_after_another_run_was(repo, launch):
    launch("1", fails=True)
    launch("2", picked=True)
    launch("3", fails=True)
    with repo.run("a correction") as other:
        other.put("raw/mon/data", b"corrected")
    launch("4")
    assert tree(repo.ref("main")) == {"raw/mon/data": "4", "total/mon/data": "of 4"}


def test_a_launch_of_every_step_starts_from_the_head_of_main(repo, launch):
    launch("old", picked=True, fails=True)
    (parked,) = repo.runs.list()
    with repo.run("another") as other:
        other.put("beside", b"1")
    launch("new", picked=True)
    record = repo.runs.get(parked.key)
    assert (record.attempt, record.forked) == (2, 2)
    assert tree(repo.ref("main"))["total/mon/data"] == "of new"


def test_a_conflict_names_the_way_to_start_again(repo, run_job):
    @dg.asset(deps=["early"])
    def mine() -> str:
        with repo.run("another") as other:
            other.put("mine/data", b"theirs")
        return "mine"

    @dg.asset
    def early() -> str:
        return "early"

    done = run_job([early, mine], raise_on_error=False)
    assert tree(repo.ref("main")) == {"mine/data": "theirs"}
    (parked,) = repo.runs.list("PARKED")
    described = str(done.failure_data_for_node("graveler_publish"))
    assert f"graveler run abandon {parked.key!r}" in described.replace("\\", "")
    assert "launch all steps again" in described
