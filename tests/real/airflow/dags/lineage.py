# An hour of a run that is published, an hour that its gate refuses, and a merged branch.
import io
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import ObjectStoragePath, Variable, dag, task

from graveler.gates import gate
from graveler_airflow import (
    GravelerCreateBranchOperator,
    GravelerDeleteOperator,
    GravelerHook,
    GravelerLinkOperator,
    GravelerMergeOperator,
    GravelerObjectSensor,
    graveler_run,
    hourly,
)


@gate(prefix="output/")
def has_output(candidate):
    assert candidate.has_below("output/"), "there is no output"


@gate(prefix="refused/")
def refuses(candidate):
    return "it never passes"


@task.graveler
def ingest(step):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = io.BytesIO()
    pq.write_table(pa.table({"carrier": ["AA", "UA"], "delay": [3, 5]}), table)
    step.put(step.hour_prefix("input") + "part.parquet", table.getvalue())


@task.graveler
def transform(step):
    assert step.get("carriers.csv")
    assert not step.has_below("nothing/")
    for entry in list(step.entries(step.hour_prefix("input"))):
        step.put(step.hour_prefix("output") + "part.parquet", step.get(entry.path))


@task.graveler
def spoil(step):
    step.put("refused/table.csv", b"1")


@task.graveler
def fails(step):
    raise ValueError(step.get("carriers.csv"))


@task
def by_hook():
    with GravelerHook().repository("lineage") as repository:
        branch = repository.branch("hooked")
        branch.put("tables/2013/01/01/sum.csv", repository.ref("test").get("carriers.csv"))
        branch.commit("sum")
        repository.merge("hooked", "merged")


@task
def by_path():
    assert ObjectStoragePath(
        "grav://graveler_default@lineage/hooked/tables/2013/01/01/sum.csv"
    ).read_bytes()
    with ObjectStoragePath("grav://graveler_default@lineage/hooked/copies/sum.csv").open(
        "wb"
    ) as file:
        file.write(b"1")


@dag(schedule=hourly(), start_date=datetime(2013, 1, 1, tzinfo=UTC))
def lineage():
    landing = Path(Variable.get("flights_landing"))
    with graveler_run("lineage", gates=[has_output]) as run:
        linked = GravelerLinkOperator(
            task_id="link", run=run, source=str(landing / "weather"), prefix="weather"
        )
        [ingest(run), linked] >> transform(run)
    with graveler_run("lineage", gates=[refuses], group_id="refused") as run:
        spoil(run)
    with graveler_run("lineage", group_id="broken") as run:
        fails(run)
    (
        GravelerCreateBranchOperator(task_id="create", branch="dev", source="v1", repo="lineage")
        >> GravelerDeleteOperator(task_id="delete", branch="dev", prefix="old/", repo="lineage")
        >> GravelerMergeOperator(task_id="merge_dev", source="dev", into="test", repo="lineage")
        >> GravelerObjectSensor(task_id="wait", prefix="carriers.csv", ref="test", repo="lineage")
        >> by_hook()
        >> by_path()
    )


lineage()
