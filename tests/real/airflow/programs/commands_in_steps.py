# mypy: ignore-errors
# Contexts replace Airflow's own.
"""Runs Bash in steps of a run; prints what each leaves on the run's branch."""

import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, task

import graveler
from graveler_airflow import GravelerOpenRunOperator, graveler_bash_task, step_env
from graveler_airflow.dag.handles import pack

folder = tempfile.mkdtemp()
os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"  # for the virtual environment that a task makes
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps({"conn_type": "graveler", "host": folder})
ROOT = Path(__file__).resolve().parents[4]
OTHER = ROOT / ".venv-dbt/bin/python"  # `make .venv-dbt/.installed` makes it, without Airflow
GRAVELER = f"{sys.executable} -m graveler.cli"
AT = datetime(2013, 1, 1, tzinfo=UTC)


def context(task_id, try_number=1):
    ti = SimpleNamespace(
        task_id=task_id,
        map_index=-1,
        try_number=try_number,
        run_id="r1",
        log_url="",
        xcom_push=lambda key, value: None,
    )
    run = SimpleNamespace(dag_id="commands", run_id="r1", run_after=AT)
    return {"ti": ti, "dag_run": run, "dag": dag}


def perform(operator, try_number=1):
    """Run a task; return its result or error, and the files of the run."""
    now = context(operator.task_id, try_number)
    try:
        operator.render_template_fields(now)
        result = operator.execute(now)
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    return [result, [entry.path for entry in run.entries()]]


def bash(task_id, command, **given):
    return BashOperator(
        task_id=task_id, bash_command=command, env=step_env(value), append_env=True, **given
    )


results = {}
with graveler.init(folder) as lake, DAG("commands") as dag:
    run = lake.create_repository("flights").runs.open("commands r1")
    value = pack(run.handle, "graveler_default", "open_run")
    put = f"{GRAVELER} run exec -- sh -c 'echo 1 | {GRAVELER} put - :$NAME.csv; exit $CODE'"
    results["joined"] = perform(bash("joined", f"NAME=a CODE=0; export NAME CODE; {put}"))
    commit = run.head.metadata
    results["metadata"] = [commit["graveler.step"], commit["airflow.task_id"]]
    results["failed"] = perform(bash("failed", f"export NAME=b CODE=3; {put}"))
    results["retried"] = perform(bash("joined2", f"export NAME=c CODE=0; {put}"), 2)
    results["tries"] = run.head.metadata["graveler.try"]
    results["outside"] = perform(bash("outside", f"echo 1 | {GRAVELER} put - :x.csv"))

    @graveler_bash_task
    def command(work, script):
        return f"{script}; echo 1 | {GRAVELER} put - :{work.step}.csv && echo $GRAVELER_URL"

    results["decorated"] = perform(command.override(task_id="d")(value, "true").operator)
    results["decorated failed"] = perform(command.override(task_id="e")(value, "exit 5").operator)
    results["decorated skipped"] = perform(command.override(task_id="f")(value, "exit 99").operator)

    def report(variables, name):
        import graveler  # the other interpreter's graveler

        with graveler.attach(variables) as step:
            step.put(name, b"1")
        return step.result.metadata["airflow.task_id"]

    outside = task.external_python(python=str(OTHER), expect_airflow=False)(report)
    results["external"] = perform(outside.override(task_id="g")(step_env(value), "g.csv").operator)
    inside = task.virtualenv(
        expect_airflow=False,
        env_vars={"PYTHONPATH": f"{ROOT}:{next(OTHER.parents[1].glob('lib/*/site-packages'))}"},
    )(report)
    results["virtualenv"] = perform(inside.override(task_id="v")(step_env(value), "v.csv").operator)

    opening = GravelerOpenRunOperator(task_id="open_run", repo="flights")
    later = BashOperator(task_id="later", bash_command="true", env=step_env(opening.output))
    results["upstream"] = sorted(later.upstream_task_ids)
    repo = run.repository
    lake.repository("flights").runs.open("commands r1")
    results["stale"] = perform(bash("stale", f"export NAME=z CODE=0; {put} 2>&1"))
print(json.dumps(results))
