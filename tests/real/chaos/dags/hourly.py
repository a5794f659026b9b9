"""The hourly pipelines under chaos: one step, two parallel steps, one step, and a gate.

``hours`` is the plain form. The others make the same files: with a timeout of the DAG run, with child
DAGs that are given the run, with a teardown, with runs that depend on the run before, and with code
that changes.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import DAG, CronDataIntervalTimetable, CronPartitionTimetable, task

from graveler.config import environment
from graveler.gates import gate
from graveler_airflow import TaskStep, graveler_asset, graveler_partitions, graveler_run
from graveler_airflow.dag.context import run_hour
from tests.real.chaos.faults import FaultInjector
from tests.real.chaos.hours import STEPS, judged, run_step

FOLDER = Path(environment("CHAOS_FOLDER"))

VERSION = 1
"""The version of the code of ``changing``; the harness replaces this line."""

NAMES = {1: "right", 2: "renamed"}
START = datetime(2013, 1, 1, tzinfo=UTC)
LIMIT = timedelta(seconds=25)

hourly = CronPartitionTimetable(
    "0 * * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%dT%H:%M"
)


def arm(context):
    """Prepare the kills at conditional writes before the task begins."""
    FaultInjector(
        FOLDER, f"{run_hour(context):%Y-%m-%dT%H:%M}", context["ti"].task_id.split(".")[-1]
    ).arm()


@gate("whole hour", reads="run")
def whole_hour(candidate):
    """The hour has exactly the expected files."""
    hour = datetime.fromisoformat(candidate.run.metadata["hour"])
    FaultInjector(FOLDER, f"{hour:%Y-%m-%dT%H:%M}", "gate").pause(None)
    return judged(candidate, hour)


def work_as(name, step, hour):
    """Do the work of a task for an hour, with the faults of the plan."""
    run_step(name, step, hour, FaultInjector(FOLDER, f"{hour:%Y-%m-%dT%H:%M}", name).pause)


@task.graveler(retries=1, execution_timeout=LIMIT)
def work(step: TaskStep, name: str):
    work_as(name, step, step.hour)


def steps(run, *, last="right"):
    """Make the tasks of an hour; `last` is the id of the one that makes the folder `right`."""
    names = {"ingest": "ingest", "left": "left", last: "right", "curate": "curate"}
    ingest, left, right, curate = (
        work.override(task_id=task_id)(run, name) for task_id, name in names.items()
    )
    ingest >> [left, right] >> curate
    return ingest


def armed(made):
    """Return a DAG whose tasks meet the faults of the plan."""
    for operator in made.tasks:
        operator._pre_execute_hook = arm
    return made


def an_hour(dag_id, **given):
    """Return a DAG for each hour."""
    given = {"schedule": hourly, "max_active_runs": 4, **given}
    return DAG(dag_id, start_date=START, catchup=False, **given)


published = graveler_partitions("hours by partition", "hours")
terms: Any = {"gates": [whole_hour], "asset": published}

with an_hour("hours") as hours, graveler_run("hours", **terms) as run:
    steps(run)

with an_hour("timed") as timed, graveler_run("hours", **terms) as run:
    late = TimeDeltaSensor(task_id="wait", delta=timedelta(seconds=1), deferrable=True)
    late >> steps(run)
# set after the block, so that the run reads it without a warning
timed.dagrun_timeout = timedelta(seconds=180)
for operator in timed.tasks:
    if operator.execution_timeout == LIMIT:
        operator.execution_timeout = timedelta(seconds=600)

with an_hour("parent") as parent, graveler_run("hours", **terms) as run:
    ingest, curate = (work.override(task_id=name)(run, name) for name in ("ingest", "curate"))
    for name in ("left", "right"):
        started = TriggerDagRunOperator(
            task_id=name,
            trigger_dag_id="child",
            trigger_run_id=f"{name}-{run['attempt']}",
            reset_dag_run=True,
            conf={"run": run, "graveler_name": name, "hour": "{{ partition_key }}"},
            wait_for_completion=True,
            poke_interval=2,
            deferrable=True,
        )
        ingest >> started >> curate

with DAG("child", schedule=None, render_template_as_native_obj=True) as child:

    @task.graveler(retries=1, execution_timeout=LIMIT)
    def part(step: TaskStep, name: str, hour: str):
        work_as(name, step, datetime.fromisoformat(f"{hour}+00:00"))

    part(
        "{{ dag_run.conf['run'] }}",  # type: ignore[arg-type] # a template
        "{{ dag_run.conf['graveler_name'] }}",
        "{{ dag_run.conf['hour'] }}",
    )

with an_hour("torn") as torn, graveler_run("hours", **terms) as run:

    @task.graveler(retries=1)
    def lock(step: TaskStep):
        step.put(f"{step.hour_prefix('lock')}lock", b"until the teardown")

    @task.graveler(retries=1)
    def sweep(step: TaskStep):
        FaultInjector(FOLDER, f"{step.hour:%Y-%m-%dT%H:%M}", "sweep").pause(step)
        step.delete(f"{step.hour_prefix('lock')}lock")

    locked = lock(run).as_setup()
    end = sweep(run).as_teardown(setups=locked)  # type: ignore[arg-type]
    tasks = [work.override(task_id=name)(run, name) for name in STEPS]
    locked >> tasks[0] >> tasks[1:3] >> tasks[3] >> end

past = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
with an_hour("chained", schedule=past, default_args={"depends_on_past": True}) as chained:
    whole = graveler_asset("hours", "hours", watch=False)
    with graveler_run("hours", gates=[whole_hour], asset=whole) as run:
        steps(run)

with an_hour("changing") as changing, graveler_run("hours", **terms) as run:
    steps(run, last=NAMES[VERSION])

for made in (hours, timed, parent, torn, chained, changing):
    armed(made)
