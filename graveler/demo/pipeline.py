"""The pipeline of one hour: a run of two steps, equal for all orchestrators."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from graveler.base.names import hour_text
from graveler.demo.flights import (
    DELAYS,
    DELAYS_SQL,
    FLIGHTS,
    FLIGHTS_FILE,
    FLIGHTS_SQL,
    INPUT,
    RAW_FLIGHTS,
    RAW_WEATHER,
    WEATHER_FILE,
    hour_prefix,
    landed_files,
    utc_hour,
)
from graveler.demo.gates import GATES
from graveler.errors import ObjectNotFoundError
from graveler.gates import Gate
from graveler.lake import PublishResult, Repository, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_WEATHER = ("temp", "wind_speed", "precip", "visib")


def run_key(hour: datetime) -> str:
    """Return the key of the hour's run; all attempts of the hour have the same key."""
    return f"flights {utc_hour(hour):%Y-%m-%dT%H:%M}Z"


def run_hour(
    repository: Repository,
    hour: datetime,
    landing: Path,
    spark: "SparkSession",
    *,
    into: str = "main",
    gates: Iterable[Gate] = GATES,
) -> PublishResult:
    """Run the hour's pipeline in this process and publish it."""
    metadata = {"hour": hour_text(utc_hour(hour))}
    with repository.run(run_key(hour), into=into, gates=gates, metadata=metadata) as run:
        with run.step("ingest") as step:
            ingest(step, hour, landing)
        with run.step("transform") as step:
            transform(step, hour, spark)
    if run.result is None:
        raise AssertionError("a run without an error is published")
    return run.result


def ingest(step: Step, hour: datetime, landing: Path) -> None:
    """Put the raw files of the hour unchanged into the lake, below ``input/``."""
    files = landed_files(hour, landing)
    if FLIGHTS_FILE not in (file.name for file in files):
        raise ObjectNotFoundError(
            f"no {FLIGHTS_FILE} of {utc_hour(hour).isoformat()} below {landing}: it has not landed"
        )
    for file in files:
        step.put(hour_prefix(INPUT, hour) + file.name, file, content_type="text/csv")


def transform(step: Step, hour: datetime, spark: "SparkSession | None" = None) -> None:
    """Clean the hour's flights, join them with the weather, and aggregate their delays.

    A value that cannot be parsed becomes null, and the gates decide whether that is acceptable. The
    session is `spark`, else that of the step. Either both tables or none join the run when the step ends.
    """
    weather = _csv(step, hour, WEATHER_FILE, RAW_WEATHER, spark).select("origin", *_WEATHER)
    landed = _csv(step, hour, FLIGHTS_FILE, RAW_FLIGHTS, spark)
    flights = (
        landed.join(weather.hint("broadcast"), "origin", "left")
        .selectExpr(
            *(f"try_cast({name} as {kind}) as {name}" for name, kind in FLIGHTS_SQL.items())
        )
        .coalesce(1)
    )
    step.write(flights, hour_prefix(FLIGHTS, hour), mode="overwrite")
    step.write(_delays(flights), hour_prefix(DELAYS, hour), mode="overwrite")


def _csv(
    step: Step, hour: datetime, file: str, header: str, spark: "SparkSession | None"
) -> "DataFrame":
    return step.read(
        hour_prefix(INPUT, hour) + file,
        "spark",
        spark=spark,
        format="csv",
        schema=", ".join(f"{name} string" for name in header.split(",")),
        # a header that differs from the schema is an error, not a shift of columns
        options={"header": "true", "enforceSchema": "false", "nullValue": "NA"},
    )


def _delays(flights: "DataFrame") -> "DataFrame":
    from pyspark.sql.functions import expr

    keys = ("origin", "carrier")
    sums = [expr(how).alias(name) for name, how in DELAYS_SQL.items() if name not in keys]
    return flights.groupBy(*keys).agg(*sums).orderBy(*keys).coalesce(1)
