"""Checks before a job: tasks must reach the stores, and workers must have the needed packages."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from graveler.base.arguments import optional, texts
from graveler.errors import MissingDependencyError
from graveler.frames.spark.session import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("graveler", "pyarrow", "rocksdict", "xxhash")
"""Packages that tasks of graveler may use."""

_PYTHON = "python"
_EXECUTABLE = "executable"
_HOST = "host"
_ROWS = 1 << 20
"""More rows than a cluster has cores, so that every task has a row."""


def preflight(
    spark: "SparkSession | None" = None, *, packages: Sequence[str] | None = None
) -> Mapping[str, str]:
    """Run a small task for each core; return the workers' versions of Python and packages.

    Reading and writing tables does not need these packages. Python functions in tasks need them. With so
    many tasks, Spark gives one to each idle executor. An executor that starts later is not checked.

    Args:
        spark: The session, classic or of Spark Connect; by default the active one.
        packages: The packages that the workers must have; by default those of `PACKAGES` that this
            process has.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    wanted = optional(texts, packages, "packages")
    look = _look()
    here = look(PACKAGES if wanted is None else wanted)
    names = [name for name in PACKAGES if here[name]] if wanted is None else list(wanted)
    try:
        there = _ask(spark or running(), names)
    except (PySparkException, Py4JError) as error:
        raise MissingDependencyError(
            f"no worker of Spark ran a task of this Python, {here[_PYTHON]}: "
            f"{_telling(str(error))}: set PYSPARK_PYTHON to a Python of this version on the workers"
        ) from error
    for worker in there:
        lacks = lacking(here, worker)
        if lacks:
            where = f"{worker[_EXECUTABLE] or 'an unknown Python'} on {worker[_HOST]}"
            raise MissingDependencyError(
                f"a worker of Spark ({where}) lacks {', '.join(lacks)}: install what is missing there, "
                "or set PYSPARK_PYTHON to a Python that has it"
            )
    return there[0]


def check_sent(*sent: object) -> None:
    """Refuse a store that tasks cannot reach, by its name; Spark would report only a pickling error."""
    pickle.dumps(sent)


def check_job(spark: "SparkSession", *sent: object) -> None:
    """Refuse a job of tasks that cannot run, before it begins."""
    check_sent(*sent)
    preflight(spark)


def lacking(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Return the packages that a worker lacks, each as a phrase."""
    lacks = [name for name in there if not there[name] and name not in (_EXECUTABLE, _HOST)]
    if here[_PYTHON].split(".")[:2] != there[_PYTHON].split(".")[:2]:
        lacks.insert(0, f"Python {here[_PYTHON]} (it is {there[_PYTHON]})")
    version = there.get("graveler", "")
    if version and version != here["graveler"]:
        lacks.append(f"graveler {here['graveler']} (it has {version})")
    return lacks


def _telling(message: str) -> str:
    """Return the line of a Spark error message that states the cause."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if "PYTHON_VERSION_MISMATCH" in line or "Cannot run" in line]
    return (telling or lines or ["no message"])[0]


def _ask(spark: "SparkSession", names: Sequence[str]) -> list[dict[str, str]]:
    from pyspark.sql.functions import udf

    look = _look()
    # without Arrow, because it may be missing
    ask = udf(lambda _: look(names), "map<string,string>", useArrow=False)
    # as many tasks as the cluster has cores; the lower 33 bits count the rows of one
    firsts = spark.range(_ROWS).where("monotonically_increasing_id() % 8589934592 = 0")
    return [dict(row[0]) for row in firsts.select(ask("id")).collect()]


def _look() -> Callable[[Sequence[str]], dict[str, str]]:
    """Return the function that a worker runs; it is sent as code, because a worker may lack graveler."""

    def look(names: Sequence[str]) -> dict[str, str]:
        import platform
        import sys
        from importlib.metadata import PackageNotFoundError, version
        from importlib.util import find_spec

        found = {
            "python": platform.python_version(),
            "executable": sys.executable,
            "host": platform.node(),
        }
        for name in names:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "" if find_spec(name) is None else "unknown"
        return found

    return look
