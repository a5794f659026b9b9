# mypy: ignore-errors
"""Materializes hours of flights with the IO managers of dagster-iceberg, which know only a REST catalog.

The first argument is the properties of the catalog as JSON, the others are hours. The rows that the second asset was
given are printed.
"""

import json
import sys

import dagster as dg
import pandas as pd
import pyarrow as pa
from dagster_iceberg.config import IcebergCatalogConfig
from dagster_iceberg.io_manager.arrow import PyArrowIcebergIOManager
from dagster_iceberg.io_manager.pandas import PandasIcebergIOManager

HOURS = {"partitions_def": dg.HourlyPartitionsDefinition("2013-01-01-00:00")}
BY_HOUR = {"partition_expr": "hour", "table_properties": {"graveler.merge": "partition"}}


class Delays(dg.Config):
    """How late the flights of an hour are."""

    minutes: list[int]


@dg.asset(**HOURS, metadata=BY_HOUR, io_manager_key="arrow")
def flights(context: dg.AssetExecutionContext, config: Delays) -> pa.Table:
    hour = context.partition_time_window.start.replace(tzinfo=None)
    times = pa.array([hour] * len(config.minutes), pa.timestamp("us"))
    return pa.table({"hour": times, "delay": config.minutes})


@dg.asset(
    **HOURS,
    metadata=BY_HOUR,
    io_manager_key="pandas",
    ins={"flights": dg.AssetIn(input_manager_key="pandas")},
)
def worst(flights: pd.DataFrame) -> pd.DataFrame:
    sys.stdout.write(json.dumps(flights["delay"].to_list()) + "\n")
    return flights.nlargest(1, "delay")


catalog, hour, *minutes = sys.argv[1:]
given = {"name": "lake", "config": IcebergCatalogConfig(properties=json.loads(catalog))}
managers = {
    "arrow": PyArrowIcebergIOManager(**given, namespace="db"),
    "pandas": PandasIcebergIOManager(**given, namespace="db"),
}
dg.materialize(
    [flights, worst],
    resources=managers,
    partition_key=hour,
    run_config=dg.RunConfig({"flights": Delays(minutes=[int(each) for each in minutes])}),
)
