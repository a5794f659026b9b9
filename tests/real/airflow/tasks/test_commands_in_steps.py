# mypy: ignore-errors
"""Programs in steps of a run: Bash, and functions in other environments."""

import sys

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from graveler_airflow import GravelerOpenRunOperator, graveler_bash_task, step_env
from graveler_airflow.dag.handles import pack
from tests.real.airflow.home import ROOT
from tests.real.airflow.played import context

OTHER = ROOT / ".venv-dbt/bin/python"  # `make .venv-dbt/.installed` makes it, without Airflow
GRAVELER = f"{sys.executable} -m graveler"
PUT = f"{GRAVELER} run exec -- sh -c 'echo 1 | {GRAVELER} put - :$NAME.csv; exit $CODE'"


@pytest.fixture(scope="module")
def run(variables, repo):
    variables.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")  # for the environment of a task
    with DAG("commands"):
        yield repo.runs.open("commands r1")


@pytest.fixture(scope="module")
def value(run):
    return pack(run.handle, "graveler_default", "open_run")


def perform(operator, tried=1):
    known = context(operator.task_id, tried, dag=operator.dag)
    operator.render_template_fields(known)
    return operator.execute(known)


def bash(value, task_id, command):
    return BashOperator(task_id=task_id, bash_command=command, env=step_env(value), append_env=True)


def put(value, name, code=0, tried=1):
    command = f"export NAME={name} CODE={code}; {PUT} 2>&1"
    return perform(bash(value, f"puts_{name}", command), tried)


def test_a_bash_operator_works_in_a_step_of_its_try(run, value):
    put(value, "a", tried=2)
    assert run.exists("a.csv")
    made = run.head.metadata
    names = ("graveler.step", "airflow.task_id", "graveler.try")
    assert [made[name] for name in names] == ["puts_a", "puts_a", "2"]


@pytest.mark.parametrize(
    ("command", "code"),
    [(f"export NAME=b CODE=3; {PUT}", 3), (f"echo 1 | {GRAVELER} put - :b.csv", 2)],
    ids=["fails", "outside of exec"],
)
def test_a_bash_operator_that_fails_leaves_nothing(run, value, command, code):
    with pytest.raises(AirflowException, match=f"non-zero exit code {code}"):
        perform(bash(value, f"b{code}", command))
    assert not run.exists("b.csv")


def test_a_decorated_command_works_in_its_step_or_leaves_nothing(run, value):
    @graveler_bash_task
    def command(work, script):
        return f"{script}; echo 1 | {GRAVELER} put - :{work.step}.csv && echo $GRAVELER_URL"

    def decorated(task_id, script):
        return perform(command.override(task_id=task_id)(value, script).operator)

    assert decorated("d", "true").startswith("grav://flights/run-commands-r1-")
    with pytest.raises(AirflowException, match=r"^the command exited with 5: its work is dropped"):
        decorated("e", "exit 5")
    with pytest.raises(AirflowSkipException):
        decorated("f", "exit 99")
    assert [run.exists(f"{name}.csv") for name in "def"] == [True, False, False]


def report(variables, name):
    import graveler  # the other interpreter's graveler

    with graveler.attach(variables) as step:
        step.put(name, b"1")
    return step.result.metadata["airflow.task_id"]


def test_a_function_in_another_environment_works_in_a_step(run, value):
    packages = next(OTHER.parents[1].glob("lib/*/site-packages"))
    external = task.external_python(python=str(OTHER), expect_airflow=False)
    inside = task.virtualenv(expect_airflow=False, env_vars={"PYTHONPATH": f"{ROOT}:{packages}"})
    for kind, name in ((external, "g"), (inside, "v")):
        made = kind(report).override(task_id=name)(step_env(value), f"{name}.csv").operator
        assert perform(made) == name
        assert run.exists(f"{name}.csv")


def test_the_task_that_opens_the_run_is_upstream():
    with DAG("upstream"):
        opening = GravelerOpenRunOperator(task_id="open_run", repo="flights")
        later = bash(opening.output, "later", "true")
    assert later.upstream_task_ids == {"open_run"}


def test_a_stale_run_is_refused(repo, value):
    repo.runs.open("commands r1")
    with pytest.raises(AirflowException, match="non-zero exit code 1"):
        put(value, "z")
