"""A job for spark-submit that writes a table in the step of a run: ``TABLE MARKS``.

Marks decide what happens. With ``TABLE fails`` it raises after the write. With ``TABLE dies`` it
kills itself. With ``TABLE waits`` it leaves the mark ``TABLE left``, and joins when ``go`` exists.
The next try neither dies nor waits.
"""

import os
import signal
import sys
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

import graveler
from graveler import spark as gs
from graveler.errors import FencedError


def main(table: str, folder: str) -> None:
    """Write the table, and do what the marks say."""
    marks = Path(folder)
    spark = SparkSession.builder.getOrCreate()
    wishes = [wish for wish in ("dies", "fails", "waits") if (marks / f"{table} {wish}").exists()]
    for once in {*wishes} - {"fails"}:
        (marks / f"{table} {once}").unlink()
    try:
        with graveler.attach(gs.submitted_step(spark) or None) as step:
            rows = spark.range(0, 1_000, numPartitions=2).selectExpr("id", "id % 3 as part")
            step.write(rows, table, partition_by=["part"])
            if "dies" in wishes:
                os.kill(os.getpid(), signal.SIGKILL)
            if "fails" in wishes:
                raise ConnectionError("lost")
            if "waits" in wishes:
                (marks / f"{table} left").write_text(f"{os.getpid()}\n")
                while not (marks / "go").exists():  # the test decides when
                    Event().wait(0.1)
    except FencedError as error:
        (marks / f"{table} fenced").write_text(f"{type(error).__name__}\n")
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
