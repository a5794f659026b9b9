# The flights of an hour in two Iceberg tables, which iceberg_tables.py makes. Four hours run at once.
from pathlib import Path

import dagster as dg

from dagster_graveler import GravelerResource, graveler_definitions
from graveler import checks
from graveler.config import environment as env

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00", end_date="2014-01-01-00:00")
lake = GravelerResource(lake=env("GRAVELER_LAKE", "demo-lake/lake"), repository="flights")
ONCE = checks.unique("time_hour", "carrier", "flight", table="db.flights", scope="changes")


@dg.asset(partitions_def=hours, retry_policy=dg.RetryPolicy(max_retries=2))
def flights(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    file = f"{context.partition_time_window.start:%Y/%m/%d/%H-%M}/flights.csv"
    with graveler.step(context) as step:
        raw = step.put(f"raw/{file}", Path(env("FLIGHTS_LANDING", "demo-lake/landing"), file))
        table = step.table("db.flights")
        rows = step.read(raw.path, "pyarrow").select(table.schema.names).cast(table.schema)
        table.append(rows)


defs = graveler_definitions([flights], lake, gates=[ONCE], partitions_def=hours, name="iceberg")
