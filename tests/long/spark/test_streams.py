"""Streaming queries: a batch lands once, in one commit; a stream reads the changes of a branch."""

import json
import shutil

import pytest
from pyspark.errors import StreamingQueryException

import graveler.spark as gs
from graveler import checks
from graveler.frames.spark.loading import is_remote
from tests.harness.spark import started


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def batches(repo, app="clicks"):
    """Return the batch numbers on main, oldest first."""
    line = [commit.metadata for commit in repo.log("main", first_parent=True)]
    return [int(found["txn.version"]) for found in line if found.get("txn.app") == app][::-1]


def put(folder, number, *values):
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": value, "day": "a"}) for value in values]
    (folder / f".{number}").write_text("\n".join(lines))
    (folder / f".{number}").rename(folder / f"{number}.json")


def kept(spark, checkpoint):
    """Return the checkpoint for `batch_writer`: a Spark Connect server does not tell the query."""
    return str(checkpoint) if is_remote(spark) else ""


def test_a_query_lands_each_batch_behind_the_gates(repo, spark, tmp_path):
    lake = gs.Tables(repo, spark)
    inbox, checkpoint = tmp_path / "inbox", tmp_path / "checkpoint"
    at = kept(spark, checkpoint)
    write = lake.batch_writer(
        "main", "clicks/", txn_app="clicks", checkpoint=at, partition_by=["day"]
    )

    def run(writer=write):
        clicks = spark.readStream.schema("id int, day string").option("maxFilesPerTrigger", 1)
        writing = clicks.json(str(inbox)).writeStream.foreachBatch(writer)
        writing = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        started(writing).awaitTermination()

    repo.gates.require("main", checks.not_null("clicks/", "id"))
    put(inbox, 0, 1, 2)
    run()
    put(inbox, 1, 3, None)
    head = repo.commit("main")
    for _ in range(2):
        with pytest.raises(StreamingQueryException) as refused:
            run()
        for part in ("GateFailedError", "not_null", "Batch 1 of", "A restart alone does not help"):
            assert part in str(refused.value)
        assert repo.commit("main") == head
    repo.gates.drop("main")
    run()
    run()
    assert batches(repo) == [0, 1]
    assert sorted(row.id or 0 for row in lake.read("main", "clicks/").collect()) == [0, 1, 2, 3]
    shutil.rmtree(checkpoint)
    with pytest.raises(StreamingQueryException, match=r"CheckpointError.*give another txn_app"):
        run()
    assert batches(repo) == [0, 1]
    run(lake.batch_writer("main", "again/", txn_app="clicks-2", checkpoint=at))
    assert batches(repo, "clicks-2") == [0, 1]
    assert lake.read("main", "again/").count() == 4


def test_changes_of_a_branch_are_a_stream(repo, spark, tmp_path):
    lake, seen = gs.Tables(repo, spark), tmp_path / "seen"
    repo.create_branch("copy")

    def load(number):
        with lake.transaction("main", message="load") as tx:
            frame = spark.createDataFrame([(number, "a")], "id int, day string").coalesce(1)
            tx.write(frame, "orders/", partition_by=["day"])

    def copy(tx, batch):
        with seen.open("a") as file:  # with Spark Connect, a process of the server runs this
            file.write(f"{sorted({row.sequence for row in batch.collect()})}\n")
        appended = lake.appended(batch, "orders/")
        if appended is not None:
            tx.write(appended, "orders/", partition_by=["day"])

    def run(start, name="copy"):
        changes = lake.changes("main", starting_ref=start, max_commits=2)
        at = tmp_path / name
        write = lake.batch_writer("copy", copy, txn_app=name, checkpoint=kept(spark, at))
        writing = changes.writeStream.foreachBatch(write).option("checkpointLocation", str(at))
        query = started(writing.trigger(availableNow=True))
        query.awaitTermination()
        return query

    first = repo.commit("main")
    for number in range(3):
        load(number)
    query = run(first)
    assert seen.read_text().splitlines() == ["[1, 2]", "[3]"]
    assert json.loads(query.lastProgress.sources[0].endOffset)["commit"] == repo.commit("main").id
    load(3)
    lake.compact("main", "orders/")
    run("main")
    run("main")
    assert seen.read_text().splitlines() == ["[1, 2]", "[3]", "[4, 5]"]
    assert rows(lake.read("copy", "orders/")) == [(number, "a") for number in range(4)]
    assert len(list(repo.log("copy", first_parent=True))) == 4
    repo.undo("main")
    with pytest.raises(StreamingQueryException, match=r"CheckpointError: .* does not hold commit"):
        run("main")
    before = repo.commit("main")
    with lake.transaction("main", message="replace") as tx:
        frame = spark.createDataFrame([(9, "a")], "id int, day string")
        tx.write(frame, "orders/", partition_by=["day"], mode="overwrite")
    with pytest.raises(StreamingQueryException, match="StateError: 'orders/' is not only appended"):
        run(before, "another")
