"""The packages of the workers: looked at before a job needs them."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graveler import __version__
from graveler.errors import MissingDependencyError

_MISSING: Final = re.compile(r"No module named '[\w.]+'")

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def check_workers(spark: "SparkSession") -> None:
    """Refuse workers that do not have this graveler.

    Raises:
        MissingDependencyError: They have none, or another version.
    """

    # cloudpickle sends a nested function by value: it runs where graveler is missing
    def look(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import json  # noqa: PLC0415 - on the worker
        import platform  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        for _ in batches:
            try:
                import graveler  # noqa: PLC0415
                import graveler.repository.imports.tasks  # noqa: PLC0415 - with what it needs

                found = {"version": graveler.__version__, "error": ""}
            except ImportError as error:
                found = {"version": "", "error": str(error)}
            found["host"] = platform.node()
            yield pyarrow.RecordBatch.from_pydict({"found": [json.dumps(found)]})

    from pyspark.errors import PySparkException  # noqa: PLC0415 - heavy: only where it is used

    try:
        rows = spark.range(1).mapInArrow(look, "found string").collect()
    except PySparkException as error:
        missing = _MISSING.search(str(error))
        if missing is None:
            raise
        raise _unfit("a Spark worker", missing[0]) from error
    for row in rows:
        found = json.loads(row["found"])
        if found["version"] != __version__:
            has = f"graveler {found['version']}" if found["version"] else found["error"]
            raise _unfit(f"the Spark worker on {found['host']}", has)


def _unfit(worker: str, has: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"{worker} has not the driver's graveler {__version__} ({has}): install `graveler[spark]` of "
        "that version on all workers, and start them with its interpreter (PYSPARK_PYTHON)"
    )
