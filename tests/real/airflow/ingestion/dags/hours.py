"""DAGs from staged files to hourly reports. They share only the lake."""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, Param, PartitionedAssetTimetable, Variable, task

from graveler_airflow import (
    GravelerHook,
    GravelerIngestOperator,
    GravelerIngestSensor,
    GravelerPartitionsOperator,
    GravelerReleaseOperator,
    graveler_asset,
    graveler_partitions,
    hourly,
)
from tests.harness.judges import no_bad_file

commits = graveler_asset("sales", "sales", poll_interval=1)
hours = graveler_partitions("sales by hour", "sales")
FIRST = datetime(2013, 1, 1, tzinfo=UTC)
LAST = datetime(2013, 1, 2, tzinfo=UTC)  # in the past, so that only runs of a test start

with DAG("tick", schedule=hourly(), start_date=FIRST, end_date=LAST):
    GravelerIngestOperator(
        task_id="tick", repo="sales", gates=[no_bad_file], on_refusal="quarantine"
    )

with DAG("release", schedule=None, params={"name": Param(type="string", default="")}):
    GravelerReleaseOperator(
        task_id="release", repo="sales", name="{{ params.name }}", gates=[no_bad_file]
    )

with DAG("wait", schedule=hourly(), start_date=FIRST, end_date=LAST):
    wait = GravelerIngestSensor(task_id="wait", repo="sales", deferrable=True, poke_interval=1)

    @task
    def read(results):
        Path(Variable.get("marks"), f"waited for {results['hour']}").write_text(results["commit"])

    read(wait.output)

with DAG("sales_hours", schedule=[commits]):
    GravelerPartitionsOperator(task_id="hours", outlets=[hours])

with DAG("report", schedule=PartitionedAssetTimetable(assets=hours)):

    @task
    def write(partition_key=None):
        hour = datetime.fromisoformat(partition_key)
        with GravelerHook().repository("sales") as repo:
            entries = repo.ref("main").entries(f"input/{hour:%Y/%m/%d/%H:%M}/")
            names = sorted(entry.path.rpartition("/")[2] for entry in entries)
        Path(Variable.get("marks"), f"report of {partition_key}").write_text(" ".join(names))

    write()
