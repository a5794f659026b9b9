"""Programs that Dagster starts by Pipes, in a step of the run."""

import sys
from pathlib import Path
from unittest.mock import create_autospec

import dagster as dg
import pytest
from dagster_pipes import PipesContext

from dagster_graveler import GravelerResource, build_publish_asset
from dagster_graveler.pipes import EXTRA, open_graveler_step
from graveler.errors import FencedError, InvalidInputError
from tests.real.dagster.programs.flights import ROOT
from tests.real.dagster.programs.looking import on_main, paths

pytestmark = [  # Dagster's own uses
    pytest.mark.filterwarnings(
        "ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:Function `PipesMessageReader.expected_writer_count`"),
]

parts = dg.StaticPartitionsDefinition(["x"])
PYTHON = [sys.executable, "-m", "tests.real.dagster.programs.outside"]
SHELL = ["bash", "-c", 'printf 1 | graveler put - ":made/x/$TEST_NAME" && [ $TEST_NAME = whole ]']


@pytest.mark.parametrize("command", [PYTHON, SHELL], ids=["Python", "no Python"])
def test_a_program_writes_in_a_step_and_a_retry_replaces_it(repo, resource, instance, command):
    tries = iter(["broken", "whole"])
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"

    @dg.asset(partitions_def=parts, code_version="9", retry_policy=dg.RetryPolicy(max_retries=1))
    def made(
        context: dg.AssetExecutionContext,
        graveler: GravelerResource,
        pipes: dg.PipesSubprocessClient,
    ):
        def start(environment, **given):
            where = {"PATH": path, "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}"}
            return pipes.run(
                context=context,
                command=command,
                cwd=str(ROOT),
                env={**environment, **where, "TEST_NAME": next(tries)},
                **given,
            ).get_materialize_result(implicit_materialization=True)

        if command is PYTHON:
            return start({}, extras=graveler.extras(context))
        with graveler.step(context) as step:
            return start(step.environment())

    result = dg.materialize(
        [made, build_publish_asset("publish", [made], partitions_def=parts)],
        instance=instance,
        partition_key="x",
        resources={"graveler": resource, "pipes": dg.PipesSubprocessClient()},
    )
    assert on_main(repo) == ["made/x/whole"]
    step = repo.commit(repo.commit("main").parents[1])
    assert (step.metadata["graveler.step"], step.metadata["graveler.try"]) == ("made", "2")
    assert step.metadata["code.version"] == "9"
    assert step.metadata["dagster.partition"] == "x"
    (event,) = result.asset_materializations_for_node("made")
    assert command is SHELL or event.metadata["graveler/commit"].value == step.id


def pipes(extras):
    """Return a context of Pipes for a step that makes no asset."""
    return create_autospec(PipesContext, instance=True, extras=extras, is_asset_step=False)


@pytest.mark.parametrize("extras", [{}, {EXTRA: "text"}, {EXTRA: {"run": {}}}])
def test_a_program_without_a_run_is_refused(extras):
    with pytest.raises(InvalidInputError, match=r"extras=graveler\.extras\(context\)"):
        with open_graveler_step(pipes(extras)):
            raise AssertionError("there is no step")


def test_a_program_that_outlived_its_run_is_refused(repo, resource, instance):
    handed = {}

    @dg.asset
    def made(context: dg.AssetExecutionContext) -> None:
        handed.update({name: resource.extras(context, name) for name in ("in time", "late")})

    dg.materialize([made], instance=instance, resources={"graveler": resource})
    (record,) = repo.runs.list()
    with open_graveler_step(pipes(handed["in time"])) as step:
        step.put("made", b"1")
    with pytest.raises(InvalidInputError, match="a name of its own"):
        with open_graveler_step(pipes(handed["in time"])):
            raise AssertionError("there is no second step of one name")
    with pytest.raises(FencedError), open_graveler_step(pipes(handed["late"])) as step:
        repo.runs.open(record.key)  # Dagster has restarted the work
        step.put("late", b"1")
    with pytest.raises(FencedError):
        with open_graveler_step(pipes(handed["late"])):
            raise AssertionError("there is no step")
    assert paths(repo.ref(record.branch)) == ["made"]
