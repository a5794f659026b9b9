# The flights of an hour, by Spark: after `make demo`, `dagster dev -f dags/flights_dagster.py`.
from pathlib import Path

import dagster as dg

from dagster_graveler import GravelerResource, graveler_definitions
from graveler.config import environment
from graveler.demo import GATES, pipeline

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00", end_date="2014-01-01-00:00")
lake = GravelerResource(lake=environment("GRAVELER_LAKE", "demo-lake/lake"), repository="flights")
landing = Path(environment("FLIGHTS_LANDING", "demo-lake/landing"))


@dg.asset(partitions_def=hours, retry_policy=dg.RetryPolicy(max_retries=2))
def flights(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    hour = context.partition_time_window.start
    with graveler.step(context, "ingest") as step:
        pipeline.ingest(step, hour, landing)
    with graveler.step(context, "transform") as step:
        pipeline.transform(step, hour)


defs = graveler_definitions([flights], lake, gates=GATES, partitions_def=hours, name="flights")
