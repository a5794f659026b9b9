"""Rows whose tasks wait: frames by which a test knows what runs where, and for how long."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

ROWS = 1_000
"""Of a task."""


def held(spark: SparkSession, folder: object, *tasks: int, count: int = 6) -> DataFrame:
    """Return a frame of numbers, of which the first try of some tasks waits.

    Args:
        spark: The session.
        folder: A waiting task puts the id of its process there, under the task's number, and goes on
            when there is a file ``go``, and leaves ``TASK over``.
        tasks: Which tasks wait.
        count: How many there are.
    """

    def hold(number):  # of annotations Spark would make another kind of function
        import os
        from threading import Event

        task = number // 1_000
        if number % 1_000 or task not in tasks:
            return number
        try:
            mark = os.open(f"{folder}/{task}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:  # another try waits, or has waited
            return number
        os.write(mark, b"%d\n" % os.getpid())
        while not os.path.exists(f"{folder}/go"):  # noqa: PTH110 - it is sent by its code alone
            Event().wait(0.05)
        with open(f"{folder}/{task} over", "x"):  # noqa: PTH123 - as above
            return number

    numbers = spark.range(0, count * ROWS, numPartitions=count)
    return numbers.select(f.udf(hold, "long")("id").alias("id"))
