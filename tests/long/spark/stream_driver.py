"""A driver of a streaming query in a separate process, which is killed at a named point."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import graveler
import graveler.spark as gs
from graveler.frames.spark.loading import is_remote
from graveler.runs.publication import RunCandidacy
from graveler.runs.run import Run
from graveler.spark import transactions
from tests.harness.spark import started

# places of the kill: a function's owner, its name, and whether before or after the call
POINTS: dict[str, tuple[Any, str, str]] = {
    "files written and staged": (transactions, "write", "after"),
    "after the compare-and-set": (RunCandidacy, "end", "before"),
    "before the checkpoint": (Run, "publish", "after"),
}


def main(folder: Path, point: str, master: str) -> None:
    """Run the query over the files in the inbox; die at the point, if one is given."""
    spark = gs.session(master=master, config={"spark.sql.shuffle.partitions": "1"})
    try:
        with graveler.open(folder / "lake") as lake:
            query(gs.Tables(lake.repository("tables"), spark), folder, point)
    finally:
        spark.stop()


def die_at(point: str) -> None:
    """Make this process kill itself at the point."""
    owner, name, when = POINTS[point]
    call = getattr(owner, name)

    def dies(*args: Any, **named: Any) -> None:
        if when == "after":
            call(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dies)


def query(lake: gs.Tables, folder: Path, point: str) -> None:
    """Land each file of the inbox as a batch: its rows, and their number."""

    def write(tx: gs.Transaction, batch: DataFrame) -> None:
        if point:  # set here, because with Spark Connect a process of the server runs this
            die_at(point)
        tx.write(batch.coalesce(1), "clicks/", partition_by=["day"])
        tx.write(batch.groupBy("day").count(), "counts/")

    at = str(folder / "checkpoint")
    kept = at if is_remote(lake.spark) else ""
    writer = lake.batch_writer("main", write, txn_app="clicks", checkpoint=kept)
    clicks = lake.spark.readStream.schema("id int, day string").option("maxFilesPerTrigger", 1)
    writing = clicks.json(str(folder / "inbox")).writeStream.foreachBatch(writer)
    started(writing.option("checkpointLocation", at).trigger(availableNow=True)).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
