"""A client of Spark Connect, in a process of its own: PySpark has one kind of session in each."""

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import graveler
from graveler import spark as gs
from graveler.config import set_environment
from graveler.spark.java import find_java


def main(lake_at: str) -> None:
    """Write, read and partition tables of a lake through a server of Spark Connect."""
    set_environment("JAVA_HOME", str(find_java().path))
    set_environment("SPARK_TESTING", "1")  # the server takes a free port, the client finds it
    set_environment("SPARK_LOCAL_IP", "127.0.0.1")
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        with graveler.open(lake_at, create=True) as lake:
            json.dump(work(lake.create_repository("tables"), spark), sys.stdout)
    finally:
        spark.stop()


def work(repo: graveler.Repository, spark: SparkSession) -> dict[str, Any]:
    """Work in a step of a run, then read what was published."""
    with repo.run("hour", into="main") as run, run.step("load") as step:
        step.write(spark.createDataFrame([(1, "a"), (2, "b")], "id int, day string"), "plain")
        step.put("mixed/day=1/a.csv", b"1\n")
        step.put("mixed/day=one/a.csv", b"2\n")
        gs.write(
            step,
            spark.createDataFrame([(3, "01"), (4, "02")], "id int, day string"),
            "days",
            partition_by=["day"],
        )
        inside = rows(step.read("plain/", spark=spark))
        of_pandas = step.read("plain/", "pandas")
    published = repo.ref("main")
    days = gs.read(published, "days/", spark=spark)
    mixed = gs.read(published, "mixed/", format="csv", spark=spark)
    return {
        "in the step": inside,
        "of pandas": sorted(of_pandas.values.tolist()),
        "published": rows(gs.read(published, "plain/", spark=spark, verify=True)),
        "by the active session": rows(gs.read(published, "plain/")),
        "days": [dict(days.dtypes)["day"], *rows(days)],
        "mixed": [dict(mixed.dtypes)["day"], *rows(mixed)],
    }


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows in order."""
    return sorted(tuple(row) for row in frame.collect())


if __name__ == "__main__":
    main(sys.argv[1])
