"""A Spark session that starts on a laptop without settings, and the settings that pass a step to its driver.

A driver that is a child process of a task inherits the variables of the step. A driver that YARN,
Kubernetes or a service starts on another machine does not, but it has the settings of its session.
"""

import re
import secrets
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta, timezone, tzinfo
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from graveler.base.arguments import expand_home, instance
from graveler.config import environment, load_config, set_environment
from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.frames.spark.java import find_java
from graveler.frames.spark.loading import is_remote
from graveler.frames.spark.s3a import s3a_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from graveler.reads.stores import Stores

_T = TypeVar("_T")


class HasStores(Protocol):
    """A repository."""

    @property
    def stores(self) -> "Stores":
        """Its stores and settings."""


_LOCALHOST = "127.0.0.1"
_CONNECT = "sc://"

_TIME_ZONE = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT|Z)?(?:([+-])([0-9]{1,2})(?::([0-9]{2}))?)?")
_IN_SESSIONS = {
    # times must not depend on the time zone of the driver
    _TIME_ZONE: "UTC",
}

_ANYWHERE: Mapping[str, str] = {
    **_IN_SESSIONS,
    "spark.ui.showConsoleProgress": "false",
}

_ON_ONE_MACHINE: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    # a laptop often cannot bind to the address of its host name
    "spark.driver.bindAddress": _LOCALHOST,
    "spark.driver.host": _LOCALHOST,
    "spark.driver.memory": "1g",
    # Spark's defaults suit a cluster: scheduling would dominate a small job
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
        f"'-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}'"
    ),
}


def session(
    *,
    master: str = "",
    app_name: str = "graveler",
    config: Mapping[str, str] | None = None,
    repo: HasStores | None = None,
    jars: str | Path | None = None,
) -> "SparkSession":
    """Return a Spark session; find a Java installation for a new classic one.

    On one machine (``local…``) it has no web page, accepts only local connections, is configured for
    small jobs, and does not show Spark's warnings. As with Spark's own builder, an active session is
    returned, classic or of Spark Connect, with the settings that can still change. A server of Spark
    Connect has its own Java, jars and workers.

    Args:
        master: Spark's master URL, or ``sc://host:port`` of a server of Spark Connect; by default the
            value of ``SPARK_REMOTE`` in the environment, else ``local[*]``.
        app_name: Name of a classic session.
        config: Spark settings that override these defaults.
        repo: A repository whose storage the session must reach. If it is on S3, the session gets the
            lake's endpoint and keys for that bucket, and the Maven coordinates of Hadoop's file system
            for S3, which Spark downloads and caches.
        jars: A folder with the jars of that file system, which are then not downloaded. With
            ``spark-hadoop-cloud`` in it, Spark commits to S3 without renames.

    Raises:
        InvalidInputError: There is no jar in the folder, or Spark does not support the lake's settings. A
            session of Spark Connect accepts no settings for S3.
        MissingDependencyError: PySpark or Java is not installed; the message names the command.
    """
    if find_spec("pyspark") is None:
        raise MissingDependencyError(
            'PySpark is not installed: run `pip install "graveler[spark]"`'
        )
    from pyspark.sql import SparkSession

    reach: Mapping[str, str] = {}
    if repo is not None:
        storage = repo.stores.storage
        options = load_config(repo.stores.location).options_of(storage)
        folder = None if jars is None else expand_home(jars)
        reach = s3a_settings(storage, options, jars=folder)
    active, master = _active(), master or environment("SPARK_REMOTE") or "local[*]"
    if master.startswith(_CONNECT) if active is None else is_remote(active):
        if reach:
            raise InvalidInputError(
                "a session of Spark Connect takes no settings of file systems: start its server with "
                f"{', '.join(sorted(reach))}, as a session of its own would have them, and leave out repo"
            )
        builder = SparkSession.builder.remote(master) if active is None else type(active).builder
        return _build(builder, _IN_SESSIONS | dict(config or {}))
    _prepare(master)
    settings = dict(_ANYWHERE)
    if master.startswith("local"):
        settings |= _ON_ONE_MACHINE
        # Spark makes the folder when it saves a table: no other user can know its name before
        warehouse = Path(tempfile.gettempdir()) / f"graveler-spark-{secrets.token_hex(16)}"
        settings["spark.sql.warehouse.dir"] = str(warehouse)
    builder = SparkSession.builder.master(master).appName(app_name)
    return _build(builder, settings | dict(reach) | dict(config or {}))


def _build(builder: "SparkSession.Builder", settings: Mapping[str, str]) -> "SparkSession":
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _prepare(master: str) -> None:
    """Set the variables by which Spark finds Java, this Python and an address of this machine."""
    set_environment("JAVA_HOME", str(find_java()))
    if not environment("PYSPARK_PYTHON"):
        # workers would otherwise run the PATH's python3, without the packages of this Python
        set_environment("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local") and not environment("SPARK_LOCAL_IP"):
        set_environment("SPARK_LOCAL_IP", _LOCALHOST)


def time_zone(spark: "SparkSession") -> tzinfo:
    """Return the time zone in which a session writes and reads times."""
    name = spark.conf.get(_TIME_ZONE) or ""
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes = offset.groups("0")
        east = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-east if sign == "-" else east)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise InvalidInputError(
            f"{_TIME_ZONE} is {name!r}: set a region such as Europe/Berlin or an offset such as +02:00"
        ) from error


def _active() -> "SparkSession | None":
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    with suppress(PySparkRuntimeError):
        return SparkSession.active()
    return None


def is_running() -> bool:
    """Return whether a session is active, or spark-submit has started this process."""
    return bool(environment("PYSPARK_GATEWAY_PORT")) or (
        "pyspark.sql" in sys.modules and _active() is not None
    )


def running(app_name: str = "graveler") -> "SparkSession":
    """Return the active Spark session unchanged, else a new one."""
    active = None if find_spec("pyspark") is None else _active()
    return active or session(app_name=app_name)


_PREFIX = "spark.graveler.secret."
"""Prefix of the settings; Spark redacts values of settings with such a name on its pages and in logs."""


def submit_settings(variables: Mapping[str, _T]) -> dict[str, _T]:
    """Return the settings with which spark-submit passes a step to a driver on another machine.

    ::

        settings = gs.submit_settings(step.environment())
        conf = [f"--conf={name}={value}" for name, value in settings.items()]
        subprocess.run(["spark-submit", "--deploy-mode=cluster", *conf, "job.py"], check=True)

    The program reads them with `submitted_step`. Spark redacts their values, but the command line of
    spark-submit shows them. They have a password only for a lake without a file.

    Args:
        variables: The result of ``step.environment()``, ``run.step_environment(name)`` or Airflow's
            ``step_env(run)``.
    """
    instance(variables, "variables", Mapping, "a mapping")
    return {f"{_PREFIX}{name}": value for name, value in variables.items()}


def submitted_step(spark: "SparkSession") -> dict[str, str]:
    """Return the variables of the step that `submit_settings` passed to this driver.

    ::

        with graveler.attach(gs.submitted_step(spark)) as step:
            step.write(frame, "output/")
    """
    settings = spark.conf.getAll
    return {
        name.removeprefix(_PREFIX): value
        for name, value in settings.items()
        if name.startswith(_PREFIX)
    }
