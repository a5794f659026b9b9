"""External problems: the error is clear, main does not change, and the next attempt works."""

from contextlib import suppress

import dagster as dg
import pytest

from dagster_graveler import GravelerResource
from dagster_graveler.resource import forget_runs
from graveler.errors import BackendUnavailableError, FencedError
from graveler.gates import gate
from graveler.lake.shared import close_lakes
from graveler.refs.mover import remove
from tests.real.dagster.programs.looking import on_main

parts = dg.StaticPartitionsDefinition(["x", "hour é 05:00 / ~^@ \N{SNOWMAN}"])


@pytest.fixture
def execute(make, lake):
    """Make and publish one asset whose body may do anything to the lake."""

    def run(body, *, partition="x", gates=(), **settings):
        @dg.asset(partitions_def=parts)
        def made(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
            body(context, graveler)

        graveler = GravelerResource(lake=lake, repository="flights", **settings)
        return make(made, partition=partition, gates=gates, graveler=graveler)

    return run


def write(context, graveler):
    with graveler.step(context) as step:
        step.put("made", b"1")


def deleted(repo, context, graveler):
    write(context, graveler)
    remove(repo.stores.refs, graveler.run(context).branch, lambda _: True)


def taken_over(repo, context, graveler):
    with graveler.step(context) as step:
        repo.runs.open(graveler.run(context).key)
        step.put("stale", b"1")


@pytest.mark.parametrize("happens", [deleted, taken_over])
def test_a_run_that_lost_its_branch_is_fenced(repo, execute, happens):
    with pytest.raises(FencedError, match="was deleted" if happens is deleted else None):
        execute(lambda context, graveler: happens(repo, context, graveler))
    assert on_main(repo) == []
    execute(write)
    assert on_main(repo) == ["made"]


def test_a_partition_of_an_odd_name(repo, execute):
    odd = parts.get_partition_keys()[1]
    assert execute(write, partition=odd).success
    commit = repo.commit("main")
    assert commit.metadata["dagster.partition"] == odd
    assert repo.runs.get(commit.metadata["graveler.run"]).state == "PUBLISHED"


def test_a_lake_that_is_briefly_missing(repo, execute, tmp_path):
    away = tmp_path / "away"

    def body(context, graveler):
        write(context, graveler)
        (tmp_path / "lake").rename(away)
        (tmp_path / "lake").mkdir()  # an empty mount point
        graveler.step(context)

    with pytest.raises(BackendUnavailableError, match="is its volume mounted"):
        execute(body)
    assert list((tmp_path / "lake").iterdir()) == []  # no lake was created there
    (tmp_path / "lake").rmdir()
    away.rename(tmp_path / "lake")
    forget_runs()
    close_lakes()  # as in a new process
    assert execute(write).success


def test_a_failed_step_may_be_tried_again_in_the_same_function(repo, execute):
    def body(context, graveler):
        with suppress(ConnectionError), graveler.step(context) as step:
            step.put("half", b"1")
            raise ConnectionError("lost")
        write(context, graveler)

    execute(body)
    assert on_main(repo) == ["made"]


@pytest.mark.parametrize(
    ("judged", "message"),
    [(lambda candidate: 1 / 0, "ZeroDivisionError"), (lambda candidate: "no", "no")],
    ids=["dies", "refuses"],
)
def test_a_gate_that_does_not_let_through(repo, execute, judged, message):
    with pytest.raises(dg.Failure) as failure:
        execute(write, gates=[gate("strict")(judged)])
    assert message in str(failure.value.description)
    assert not failure.value.allow_retries
    assert failure.value.metadata["graveler/branch"].value == next(repo.runs.list("PARKED")).branch
    assert on_main(repo) == []
    assert execute(write).success
