"""A stand-in for a Spark session: it calls tasks in this process, as executors call them."""

import pickle
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


class _Conf(dict[str, str]):
    """The settings of a session that tasks and the driver read."""

    def __init__(self) -> None:
        super().__init__({_BATCH: "10000"})

    def set(self, name: str, value: str) -> None:
        self[name] = value


class Tasks:
    """Runs each task twice, in reverse order.

    Args:
        copies: Whether tasks are pickled; a store in memory must not be pickled.
        random: Shuffles the tasks and their rows.

    Attributes:
        count: Number of tasks of the last frame.
        conf: The settings.
    """

    def __init__(self, *, copies: bool = False, random: Random | None = None) -> None:
        self.copies = copies
        self.random = random
        self.count = 0
        self.conf = _Conf()

    def range(self, _start: int, stop: int, _step: int, _parts: int) -> "_Frame":
        """Return a frame of one number for each task."""
        return _Frame(self, [pa.table({"id": [number]}) for number in range(stop)])

    def createDataFrame(self, table: pa.Table) -> "_Frame":  # noqa: N802 - Spark's name
        """Return a frame of these rows, cut as in PySpark, which accepts no limit below 1."""
        table.to_batches(max_chunksize=int(self.conf[_BATCH]))
        return _Frame(self, [table])


class _Frame:
    def __init__(self, session: Tasks, parts: list[pa.Table]) -> None:
        self._session = session
        self._parts = parts
        self._task: Any = None

    @property
    def sparkSession(self) -> Tasks:  # noqa: N802 - Spark's name
        """The session."""
        return self._session

    def repartitionById(self, count: int, column: str) -> "_Frame":  # noqa: N802 - Spark's name
        (table,) = self._parts
        if self._session.random is not None:
            order = list(range(len(table)))
            self._session.random.shuffle(order)
            table = table.take(order)
        numbers = table.column(column)
        parts = [table.filter(pc.equal(numbers, number)) for number in range(count)]
        return _Frame(self._session, parts)

    def mapInArrow(self, task: Any, _schema: str) -> "_Frame":  # noqa: N802 - Spark's name
        self._task = task
        return self

    def collect(self) -> list[tuple[Any, ...]]:
        order = list(range(len(self._parts)))[::-1]
        if self._session.random is not None:
            self._session.random.shuffle(order)
        self._session.count = len(order)
        first, second = (
            [row for number in order for row in self._run(self._parts[number])] for _ in range(2)
        )
        assert len(first) == len(second)
        return second

    def _run(self, part: pa.Table) -> Iterator[tuple[Any, ...]]:
        copies = self._session.copies
        task = pickle.loads(cloudpickle.dumps(self._task)) if copies else self._task
        for batch in task(iter(part.to_batches(max_chunksize=100))):
            yield from zip(*batch.to_pydict().values(), strict=True)
