"""The flights of an hour, by Dagster: the demo's pipeline, its steps as assets.

`dagster dev -f dags/flights_dagster.py`, with GRAVELER_LAKE naming the lake's folder and
FLIGHTS_LANDING the folder where the hours arrive; without them, those that `make demo` leaves.
"""

from pathlib import Path

import dagster as dg

from dagster_graveler import GravelerResource, GravelerSparkIOManager, graveler_definitions
from graveler.config import environment
from graveler.demo import GATES, pipeline
from graveler.demo.hours import hour_prefix
from graveler.demo.tables import DELAYS
from graveler.spark import read, session

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
again = dg.RetryPolicy(max_retries=2)


class Landing(dg.ConfigurableResource):
    folder: str


@dg.asset(partitions_def=hours, retry_policy=again)
def raw_flights(
    context: dg.AssetExecutionContext, graveler: GravelerResource, landing: Landing
) -> None:
    with graveler.step(context) as step:
        pipeline.ingest(step, context.partition_time_window.start, Path(landing.folder))


@dg.asset(partitions_def=hours, retry_policy=again, deps=[raw_flights])
def flights(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    with graveler.step(context) as step:
        pipeline.transform(step, context.partition_time_window.start, session())


@dg.asset(partitions_def=hours, retry_policy=again, deps=[flights])
def airports(context: dg.AssetExecutionContext, graveler: GravelerResource):
    """What is returned is written by the IO manager: output/airports/2013/01/01/10:00/."""
    folder = hour_prefix(DELAYS, context.partition_time_window.start)
    delays = read(graveler.view(context), folder, spark=session())
    return delays.groupBy("origin").sum("flights", "cancelled", "late").coalesce(1)


def definitions(lake: str, landing: str) -> dg.Definitions:
    repository = GravelerResource(lake=lake, repository="flights")
    return graveler_definitions(
        [raw_flights, flights, airports],
        repository,
        gates=GATES,
        partitions_def=hours,
        io_manager=GravelerSparkIOManager(graveler=repository, prefix="output/"),
        resources={"landing": Landing(folder=landing)},
        name="flights",
    )


defs = definitions(
    environment("GRAVELER_LAKE", "demo-lake/lake"),
    environment("FLIGHTS_LANDING", "demo-lake/landing"),
)
