"""A Spark session that starts on a laptop without settings."""

import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graveler.config import environment, load_config, set_environment
from graveler.errors import MissingDependencyError
from graveler.spark.java import find_java
from graveler.spark.s3a import s3a_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from graveler.lake import Repository


_LOCALHOST: Final = "127.0.0.1"

_ANYWHERE: Final[Mapping[str, str]] = {
    # an hour must not depend on the time zone of the driver
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}

_ON_ONE_MACHINE: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    # a laptop's host name is often not an address that it can bind to
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
    master: str = "local[*]",
    app_name: str = "graveler",
    config: Mapping[str, str] | None = None,
    repo: "Repository | None" = None,
    jars: str | Path | None = None,
) -> "SparkSession":
    """Return a Spark session; find a Java installation for a new one.

    On one machine (``local…``) it has no web page, listens to this machine only and is set
    for small jobs; Spark's warnings are not shown. As with Spark's own builder, an active session
    is returned, with the settings that can still change.

    Args:
        master: Spark's master URL.
        app_name: Name of the session.
        config: Spark settings that override these defaults.
        repo: A repository whose storage the session must reach. If it is on S3, the session gets the
            lake's endpoint and keys for that bucket, and Hadoop's file system for S3 by its
            coordinates, which Spark fetches and keeps.
        jars: A folder with that file system's jars, which are not fetched then; with
            ``spark-hadoop-cloud`` beside them Spark commits to S3 without renames.

    Raises:
        InvalidInputError: There is no jar in the folder, or Spark cannot take the lake's settings.
        MissingDependencyError: PySpark or Java is not installed; the message names the command.
    """
    if find_spec("pyspark") is None:
        raise MissingDependencyError(
            'PySpark is not installed: run `pip install "graveler[spark]"`'
        )
    set_environment("JAVA_HOME", str(find_java().path))
    if not environment("PYSPARK_PYTHON"):
        # workers would otherwise be the PATH's python3, without the packages of this one
        set_environment("PYSPARK_PYTHON", sys.executable)
    settings = dict(_ANYWHERE)
    if master.startswith("local"):
        settings |= _ON_ONE_MACHINE
        settings["spark.sql.warehouse.dir"] = str(Path(tempfile.gettempdir()) / "graveler-spark")
        if not environment("SPARK_LOCAL_IP"):
            set_environment("SPARK_LOCAL_IP", _LOCALHOST)
    if repo is not None:
        options = load_config(repo.stores.location).options_of(repo.storage)
        folder = None if jars is None else Path(jars)
        settings |= s3a_settings(repo.storage, options, jars=folder)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - heavy: only where it is used

    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in (settings | dict(config or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def running(app_name: str = "graveler") -> "SparkSession":
    """Return the active Spark session as it is, else a new one.

    Args:
        app_name: Name of a new session.
    """
    if find_spec("pyspark") is not None:
        from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - heavy: only where used
        from pyspark.sql import SparkSession  # noqa: PLC0415

        with suppress(PySparkRuntimeError):
            return SparkSession.active()
    return session(app_name=app_name)
