"""Programs that Dagster starts by Pipes, in a step of the run."""

import sys
from pathlib import Path
from unittest.mock import create_autospec

import dagster as dg
import pytest
from dagster_pipes import PipesContext

from dagster_graveler import GravelerIOManager, GravelerResource, build_publish_asset
from dagster_graveler.pipes import EXTRA, open_graveler_step
from graveler.errors import FencedError, InvalidInputError

pytestmark = [  # Dagster's own uses
    pytest.mark.filterwarnings(
        "ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore:Function `PipesMessageReader.expected_writer_count`"),
]

ROOT = Path(__file__).resolve().parents[3]
parts = dg.StaticPartitionsDefinition(["x"])


@pytest.fixture
def execute(resource, instance):
    def run(*names):
        tries = iter(names)

        @dg.asset(
            partitions_def=parts, code_version="9", retry_policy=dg.RetryPolicy(max_retries=1)
        )
        def made(
            context: dg.AssetExecutionContext,
            graveler: GravelerResource,
            pipes: dg.PipesSubprocessClient,
        ):
            path = f"{ROOT}:{ROOT / 'integrations'}"
            return pipes.run(
                context=context,
                command=[sys.executable, "-m", "tests.real.dagster.outside"],
                cwd=str(ROOT),
                env={"PYTHONPATH": path, "TEST_NAME": next(tries)},
                extras=graveler.extras(context),
            ).get_materialize_result()

        return dg.materialize(
            [made, build_publish_asset("publish", [made], partitions_def=parts)],
            instance=instance,
            partition_key="x",
            resources={
                "graveler": resource,
                "pipes": dg.PipesSubprocessClient(),
                "io_manager": GravelerIOManager(graveler=resource),
            },
            raise_on_error=False,
        )

    return run


def test_a_program_writes_in_a_step_and_a_retry_replaces_it(repo, execute):
    result = execute("broken", "whole")
    assert result.success
    assert [entry.path for entry in repo.ref("main").entries()] == ["made/x/whole"]
    step = repo.commit(repo.commit("main").parents[1])
    assert (step.metadata["graveler.step"], step.metadata["graveler.try"]) == ("made", "2")
    assert step.metadata["code.version"] == "9"
    assert step.metadata["dagster.partition"] == "x"
    (event,) = result.asset_materializations_for_node("made")
    assert event.metadata["graveler/commit"].value == step.id


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
    with pytest.raises(FencedError), open_graveler_step(pipes(handed["late"])) as step:
        repo.runs.open(record.key)  # Dagster has restarted the work
        step.put("late", b"1")
    with pytest.raises(FencedError):
        with open_graveler_step(pipes(handed["late"])):
            raise AssertionError("there is no step")
    assert [entry.path for entry in repo.ref(record.branch).entries()] == ["made"]


def test_one_step_of_two_programs_is_refused_keeping_the_first(repo, resource, instance):
    handed = {}

    @dg.asset
    def made(context: dg.AssetExecutionContext) -> None:
        handed.update(resource.extras(context))

    dg.materialize([made], instance=instance, resources={"graveler": resource})
    with open_graveler_step(pipes(handed)) as step:
        step.put("first", b"1")
    with pytest.raises(InvalidInputError, match="a name of its own"):
        with open_graveler_step(pipes(handed)):
            raise AssertionError("there is no step")
    (record,) = repo.runs.list()
    assert [entry.path for entry in repo.ref(record.branch).entries()] == ["first"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_program_that_is_not_python_writes_in_a_step(repo, resource, instance, code):
    command = f'printf 1,2 | graveler put - ":input/$PART.csv" && exit {code}'

    @dg.asset(partitions_def=parts)
    def made(
        context: dg.AssetExecutionContext,
        graveler: GravelerResource,
        pipes: dg.PipesSubprocessClient,
    ):
        with graveler.step(context) as step:
            path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
            return pipes.run(
                context=context,
                command=["bash", "-c", command],
                env={**step.environment(), "PATH": path, "PART": context.partition_key},
            ).get_materialize_result(implicit_materialization=True)

    result = dg.materialize(
        [made, build_publish_asset("publish", [made], partitions_def=parts)],
        instance=instance,
        partition_key="x",
        resources={"graveler": resource, "pipes": dg.PipesSubprocessClient()},
        raise_on_error=False,
    )
    assert result.success == (code == 0)
    on_main = {entry.path for entry in repo.ref("main").entries()}
    assert on_main == ({"input/x.csv"} if code == 0 else set())
    (record,) = repo.runs.list()
    branch = "main" if code == 0 else record.branch
    assert repo.ref(branch).exists("input/x.csv") == (code == 0)
