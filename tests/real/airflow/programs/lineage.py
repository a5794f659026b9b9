# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Prints the datasets that operators and sensors report to OpenLineage, with numbered commits."""

import io
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

import graveler
import graveler_airflow as ga

folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps(
    {"conn_type": "graveler", "host": folder, "extra": {"repo": "flights"}}
)
FIVE = datetime(2013, 1, 1, 5, tzinfo=UTC)
results, commits = {}, {}


def context(task_id, tried):
    ti = SimpleNamespace(
        task_id=task_id,
        map_index=-1,
        try_number=tried,
        run_id="r1",
        xcom_push=lambda key, value: None,
        log_url="",
    )
    run = SimpleNamespace(dag_id="d", run_id="r1", run_after=FIVE, start_date=FIVE)
    return {"ti": ti, "dag_run": run}


def named(datasets):
    versions = [dataset.facets["version"].datasetVersion for dataset in datasets]
    numbers = [commits.setdefault(version, len(commits) + 1) for version in versions]
    return [f"{dataset.name} {number}" for dataset, number in zip(datasets, numbers, strict=True)]


def report(name, operator, tried=1):
    result = operator.execute(context(operator.task_id, tried))
    lineage = operator.get_openlineage_facets_on_complete(None)
    results[name] = [named(lineage.inputs), named(lineage.outputs)]
    return result


with graveler.open(folder, create=True) as lake:
    repo = lake.create_repository("flights")
    main = repo.branch("main")
    main.put("a/x.csv", b"1")
    first = main.commit("first")
    dev = repo.create_branch("dev")
    dev.put("b/y.csv", b"2")

    commit = ga.GravelerCommitOperator(task_id="commit", branch="dev")
    report("commit", commit)
    report("commit again", commit, tried=2)
    merge = ga.GravelerMergeOperator(task_id="merge", source="dev")
    merge.execute(context("merge", 1))
    report("merge again", merge, tried=2)
    report("merge of another task", ga.GravelerMergeOperator(task_id="other", source="dev"))
    merged = main.head.id
    report("tag", ga.GravelerTagOperator(task_id="tag", tag="v1"))
    with repo.run("k") as run:
        run.put("c/z.csv", b"3")
    report("rollback", ga.GravelerRollbackOperator(task_id="rollback", run="k"))
    report("revert", ga.GravelerRevertOperator(task_id="revert", commit=merged))

    ingest = repo.create_branch("ingest")
    ingest.put("landing/2013/01/01/05:00/q.csv", b"7")
    report("tick", ga.GravelerIngestOperator(task_id="tick"))
    ingest.put("landing/2013/01/01/06:00/q.csv", b"8")
    refused = ga.GravelerIngestOperator(
        task_id="later",
        on_refusal="quarantine",
        gates=[graveler.gate("never")(lambda candidate: "no")],
        hour="2013-01-01T06:00",
    )
    (name,) = report("quarantined", refused)["quarantined"]
    report("release", ga.GravelerReleaseOperator(task_id="release", name=name))

    report("commits", ga.GravelerCommitSensor(task_id="c", repo="flights", since=first.id))
    hour = ga.GravelerIngestSensor(task_id="h", repo="flights", hour=FIVE.isoformat())
    report("hour", hour)

    table = io.BytesIO()
    pq.write_table(pa.table({"delay": [3]}), table)
    for number in range(33):
        dev.put(f"many/{number}.parquet", table.getvalue())
    commit.execute(context("many", 1))
    (output,) = commit.get_openlineage_facets_on_complete(None).outputs
    statistics = output.outputFacets["outputStatistics"]
    fields = [field.name for field in output.facets["schema"].fields]
    results["many files"] = [fields, statistics.rowCount, statistics.fileCount]

Path(folder).rename(f"{folder}.gone")
lineage = commit.get_openlineage_facets_on_complete(None)
results["without the lake"] = [named(lineage.outputs), len(lineage.run_facets["tags"].tags)]
print(json.dumps(results))
