"""A driver of a streaming query, in a process of its own, that is killed at a named point."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame

import graveler
import graveler.spark as gs
from graveler.runs.publishing import RunCandidacy
from graveler.runs.run import Run
from graveler.spark import transactions

# where each dies: the owner of a function, its name, and whether before or after the call
POINTS: Final[dict[str, tuple[Any, str, str]]] = {
    "files written and staged": (transactions, "write", "after"),
    "after the compare-and-set": (RunCandidacy, "end", "before"),
    "before the checkpoint": (Run, "publish", "after"),
}


def main(folder: Path, point: str) -> None:
    """Run the query over what is in the inbox; die at the point, if there is one."""
    if point:
        owner, name, when = POINTS[point]
        setattr(owner, name, dying(getattr(owner, name), when))
    spark = gs.session(master="local[1]", config={"spark.sql.shuffle.partitions": "1"})
    try:
        with graveler.open(folder / "lake") as lake:
            query(gs.attach(lake.repository("tables"), spark), folder)
    finally:
        spark.stop()


def dying(call: Callable[..., Any], when: str) -> Callable[..., Any]:
    """Return a call that kills the process."""

    def dies(*args: Any, **named: Any) -> None:
        if when == "after":
            call(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return dies


def query(lake: gs.Tables, folder: Path) -> None:
    """Land each file of the inbox as a batch: its rows, and how many there are."""

    def write(tx: gs.Transaction, batch: DataFrame) -> None:
        tx.write(batch.coalesce(1), "clicks/", partition_by=["day"])
        tx.write(batch.groupBy("day").count(), "counts/")

    writer = lake.batch_writer("main", write, txn_app="clicks")
    clicks = lake.spark.readStream.schema("id int, day string").option("maxFilesPerTrigger", 1)
    writing = clicks.json(str(folder / "inbox")).writeStream.foreachBatch(writer)
    at = str(folder / "checkpoint")
    writing.option("checkpointLocation", at).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
