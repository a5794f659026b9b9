"""Data frames whose tasks wait, so that a test controls where and for how long they run."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

ROWS = 1_000
"""The number of rows of a task."""


def held(spark: SparkSession, folder: object, *tasks: int, count: int = 6) -> DataFrame:
    """Return a frame of numbers. The first try of some of its tasks waits.

    Args:
        spark: The session.
        folder: A waiting task writes the id of its process to a file with the task's number. It
            continues when the file ``go`` exists, and leaves ``TASK over``.
        tasks: The numbers of the tasks that wait.
        count: The number of all tasks.
    """

    def hold(number):  # annotations would select another kind of function in Spark
        import os
        from threading import Event

        task = number // 1_000
        if number % 1_000 or task not in tasks:
            return number
        try:
            mark = os.open(f"{folder}/{task}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:  # another try waits or has waited
            return number
        os.write(mark, b"%d\n" % os.getpid())
        while not os.path.exists(f"{folder}/go"):  # noqa: PTH110 - it is sent by its code alone
            Event().wait(0.05)
        with open(f"{folder}/{task} over", "x"):  # noqa: PTH123 - as above
            return number

    numbers = spark.range(0, count * ROWS, numPartitions=count)
    return numbers.select(f.udf(hold, "long")("id").alias("id"))
