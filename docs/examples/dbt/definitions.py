# The dbt project of this folder as assets, hour by hour; dbt is in an environment of its own.
import json
from pathlib import Path

import dagster as dg
from dagster_dbt import DbtCliResource, dbt_assets

from dagster_graveler import GravelerResource, graveler_definitions
from graveler.config import environment

PROJECT = Path(__file__).parent
hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00", end_date="2013-01-02-00:00")
each = dg.BackfillPolicy.multi_run(1)  # the same for all: dbt_assets has another by default
landing = environment("FLIGHTS_LANDING", "landing")


def folder(context: dg.AssetExecutionContext):
    return f"{context.partition_time_window.start:%Y/%m/%d/%H-00}"


@dg.asset(key=["landing", "flights"], partitions_def=hours, backfill_policy=each)
def flights(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    with graveler.step(context) as step:
        step.put(
            f"input/{folder(context)}/flights.csv", Path(landing, folder(context), "flights.csv")
        )


@dbt_assets(manifest=PROJECT / "target/manifest.json", partitions_def=hours, backfill_policy=each)
def models(context: dg.AssetExecutionContext, dbt: DbtCliResource, graveler: GravelerResource):
    build = ["build", "--vars", json.dumps({"hour": folder(context)})]
    with graveler.step(context) as step, step.exported():
        yield from dbt.cli(build, context=context).stream()


defs = graveler_definitions(
    [flights, models],
    GravelerResource(lake=dg.EnvVar("GRAVELER_LAKE"), repository="flights"),
    partitions_def=hours,
    name="flights",
    resources={
        "dbt": DbtCliResource(
            project_dir=str(PROJECT),
            profiles_dir=str(PROJECT),
            dbt_executable=environment("DBT_EXECUTABLE", "dbt"),
        )
    },
)
