"""Column lineage from the plans of Spark frames."""

from typing import Any

import dagster as dg
import pandas as pd
import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from dagster_graveler import GravelerIOManager
from dagster_graveler.io_managers import lineage


@dg.asset
def flights() -> pd.DataFrame:
    return pd.DataFrame(
        {"carrier": ["UA", "B6"], "origin": ["EWR", "JFK"], "delay": [4, 7], "legs": [1, 2]}
    )


@dg.asset
def carriers() -> pd.DataFrame:
    return pd.DataFrame({"code": ["UA"], "name": ["United"]})


@pytest.fixture
def deps_of(resource, instance, spark):
    """Return, for each column that a function returns, the columns from which it is computed."""

    def run(function, **ins):
        asset = dg.asset(name="made", ins={"flights": dg.AssetIn(), **ins})(function)
        result = dg.materialize(
            [flights, carriers, asset],
            resources={"io_manager": GravelerIOManager(graveler=resource)},
            instance=instance,
        )
        (event,) = result.asset_materializations_for_node("made")
        shown: Any = event.metadata.get("dagster/column_lineage")
        return shown and {
            column: [f"{dep.asset_key.to_user_string()}.{dep.column_name}" for dep in deps]
            for column, deps in shown.value.deps_by_column.items()
        }

    return run


def test_columns_are_followed_through_a_query(deps_of):
    def made(flights: DataFrame, carriers: DataFrame):
        return (
            flights.withColumn("total", f.col("delay") * f.col("legs"))
            .join(carriers, f.col("carrier") == f.col("code"), "left")
            .where("delay > 0")
            .groupBy(f.upper("name").alias("who"))
            .agg(f.sum("total").alias("sum"), f.count("*").alias("rows"), f.lit(1).alias("one"))
        )

    assert deps_of(made, carriers=dg.AssetIn()) == {
        "who": ["carriers.name"],
        "sum": ["flights.delay", "flights.legs"],
    }


def test_a_table_that_is_joined_with_itself_is_followed(deps_of):
    def made(flights: DataFrame):
        other = flights.select("carrier", f.col("legs").alias("n"))
        both = flights.join(other, "carrier").unionByName(flights.withColumn("n", f.col("delay")))
        window = Window.partitionBy("carrier").orderBy("origin")
        return both.select("n", f.row_number().over(window).alias("at")).select(
            "at", f.explode(f.array("n")).alias("n")
        )

    assert deps_of(made) == {
        "n": ["flights.delay", "flights.legs"],
        "at": ["flights.carrier", "flights.origin"],
    }


def test_columns_of_python_functions_have_no_lineage(deps_of):
    def made(flights: DataFrame):
        return flights.mapInPandas(lambda frames: frames, flights.schema)

    assert deps_of(made) is None


def test_a_large_plan_is_left_out(deps_of, monkeypatch):
    monkeypatch.setattr(lineage, "_MOST_NODES", 2)

    def made(flights: DataFrame):
        return flights.where("delay > 0").select("delay").limit(1)

    assert deps_of(made) is None


def test_declared_lineage_replaces_what_the_plan_tells(resource, instance, spark):
    own = dg.TableColumnLineage({"delay": [dg.TableColumnDep(dg.AssetKey("raw"), "delay")]})
    added = dg.TableColumnLineage({"legs": [dg.TableColumnDep(dg.AssetKey("raw"), "legs")]})

    @dg.asset(metadata={"dagster/column_lineage": own})
    def declared(flights: DataFrame) -> DataFrame:
        return flights

    @dg.asset
    def step(context: dg.AssetExecutionContext, flights: DataFrame) -> DataFrame:
        context.add_output_metadata({"dagster/column_lineage": added})
        return flights

    result = dg.materialize(
        [flights, declared, step],
        resources={"io_manager": GravelerIOManager(graveler=resource)},
        instance=instance,
    )
    for name, expected in (("declared", own), ("step", added)):
        (event,) = result.asset_materializations_for_node(name)
        assert event.metadata["dagster/column_lineage"].value == expected
