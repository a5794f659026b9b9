"""Which attempt a Dagster run works in, also when the code changes, and what a new one starts from."""

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions
from dagster_graveler import context as contexts

DAYS = dg.StaticPartitionsDefinition(["mon", "tue"])
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
def days(resource):
    FAILING[0] = False
    manager = GravelerIOManager(graveler=resource)
    return graveler_definitions([raw, total], resource, io_manager=manager, name="days")


@pytest.fixture
def pick(days, instance):
    def pick(*names, partition="mon", version="1"):
        return days.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            partition_key=partition,
            asset_selection=[dg.AssetKey(name) for name in names],
            tags={"version": version},
            raise_on_error=False,
        )

    return pick


ALL = ("raw", "total", "days_publish")


def on_main(repo, asset="total", partition="mon"):
    return repo.ref("main").get(f"{asset}/{partition}/data").decode()


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

    manager = GravelerIOManager(graveler=resource)
    defs = graveler_definitions([first, second], resource, io_manager=manager, name="two")
    done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(name) for name in ("first", "second", "two_publish")],
    )
    assert done.success
    assert len(list(repo.runs.list())) == 1
    assert repo.ref("main").get("second/data") == b"second of first"
    assert instance.get_run_by_id(done.run_id).tags["graveler/job"] == "two_job"


def test_a_parked_day_is_published_after_another_run_was(repo, days, instance, pick):
    job = days.resolve_job_def("days_job")

    def launch(version):
        return job.execute_in_process(
            instance=instance,
            partition_key="mon",
            tags={"version": version},
            raise_on_error=False,
        ).success

    FAILING[0] = True
    assert not launch("1")
    FAILING[0] = False
    assert pick(*ALL, version="2").success
    FAILING[0] = True
    assert not launch("3")
    with repo.run("a correction") as other:
        other.put("raw/mon/data", b"corrected")
    FAILING[0] = False
    assert launch("4")
    assert (on_main(repo, "raw"), on_main(repo)) == ("4", "of 4")


def test_a_launch_of_every_step_starts_from_the_head_of_main(repo, days, instance, pick):
    FAILING[0] = True
    assert not pick(*ALL, version="old").success
    (parked,) = repo.runs.list()
    with repo.run("another") as other:
        other.put("beside", b"1")
    FAILING[0] = False
    assert pick(*ALL, version="new").success
    record = repo.runs.get(parked.key)
    assert (record.attempt, record.forked) == (2, 2)
    assert on_main(repo) == "of new"


def test_a_conflict_names_the_way_to_start_again(repo, resource, instance):
    @dg.asset(deps=["early"])
    def mine() -> str:
        with repo.run("another") as other:
            other.put("mine/data", b"theirs")
        return "mine"

    @dg.asset
    def early() -> str:
        return "early"

    manager = GravelerIOManager(graveler=resource)
    defs = graveler_definitions([early, mine], resource, io_manager=manager, name="two")
    job = defs.resolve_job_def("two_job")
    done = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not done.success
    (parked,) = repo.runs.list("PARKED")
    described = str(done.failure_data_for_node("two_publish"))
    assert f"graveler run abandon {parked.key!r}" in described.replace("\\", "")
    assert "launch all steps again" in described
