"""What a job needs before it runs: stores that tasks can reach, and workers that have what tasks use."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from graveler.arguments import optional, texts
from graveler.errors import MissingDependencyError
from graveler.spark.session import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("graveler", "pyarrow", "rocksdict", "xxhash")
"""What tasks of graveler may use."""

_PYTHON: Final = "python"
_EXECUTABLE: Final = "executable"
_HOST: Final = "host"
_ROWS: Final = 1 << 20
"""More than a cluster has cores, so that no task is without a row."""


def preflight(
    spark: "SparkSession | None" = None, *, packages: Sequence[str] | None = None
) -> Mapping[str, str]:
    """Run a small task for each core; return the versions of Python and of packages that workers have.

    Reading and writing tables needs none of them; Python functions in tasks do. Spark gives each idle
    executor one of so many tasks. An executor that starts later is not looked at.

    Args:
        spark: The session, classic or of Spark Connect; by default the active one.
        packages: The packages that the worker must have; by default `PACKAGES`, as far as this
            process has them.

    Raises:
        MissingDependencyError: A worker runs another Python, lacks a package, or has another
            version of graveler; the message names what and where.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - heavy: only where it is used
    from pyspark.errors import PySparkException  # noqa: PLC0415

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
    """Refuse by its name a store that tasks cannot reach: Spark would tell of its own pickling only.

    Args:
        *sent: What tasks get of a repository: stores, or what holds them.

    Raises:
        InvalidInputError: A store is in the memory of this process.
    """
    pickle.dumps(sent)


def check_job(spark: "SparkSession", *sent: object) -> None:
    """Refuse a job of tasks that cannot run, before it begins.

    Args:
        spark: The session.
        *sent: As of `check_sent`.

    Raises:
        InvalidInputError: A store is in the memory of this process.
        MissingDependencyError: As `preflight`.
    """
    check_sent(*sent)
    preflight(spark)


def lacking(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Return what a worker lacks, each as a phrase.

    Args:
        here: The versions of this process.
        there: Those of the worker; "" for a package that it does not have.
    """
    lacks = [name for name in there if not there[name] and name not in (_EXECUTABLE, _HOST)]
    if here[_PYTHON].split(".")[:2] != there[_PYTHON].split(".")[:2]:
        lacks.insert(0, f"Python {here[_PYTHON]} (it is {there[_PYTHON]})")
    version = there.get("graveler", "")
    if version and version != here["graveler"]:
        lacks.append(f"graveler {here['graveler']} (it has {version})")
    return lacks


def _telling(message: str) -> str:
    """Return the line of a message of Spark that says what happened."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if "PYTHON_VERSION_MISMATCH" in line or "Cannot run" in line]
    return (telling or lines or ["no message"])[0]


def _ask(spark: "SparkSession", names: Sequence[str]) -> list[dict[str, str]]:
    from pyspark.sql.functions import udf  # noqa: PLC0415 - heavy: only where it is used

    look = _look()
    # without Arrow: it may be what is missing
    ask = udf(lambda _: look(names), "map<string,string>", useArrow=False)
    # as many tasks as the cluster has cores; the lower 33 bits count the rows of one
    firsts = spark.range(_ROWS).where("monotonically_increasing_id() % 8589934592 = 0")
    return [dict(row[0]) for row in firsts.select(ask("id")).collect()]


def _look() -> Callable[[Sequence[str]], dict[str, str]]:
    """Return a function that looks; it is sent by its code, because a worker may lack this module."""

    def look(names: Sequence[str]) -> dict[str, str]:
        import platform  # noqa: PLC0415 - imported where it runs
        import sys  # noqa: PLC0415
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

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
