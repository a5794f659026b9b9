"""One IO manager for assets that return and receive values of different types."""

from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
import dask.dataframe as dd
import pandas as pd
import polars as pl
import pyarrow as pa
import pyspark.sql
import pytest

from dagster_graveler import GravelerIOManager, TypeHandler, build_publish_asset
from dagster_graveler.io_managers.handlers import put
from graveler.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from graveler.spark import write

AT = datetime(2013, 1, 1, 5, 30, tzinfo=UTC)
ROWS = {"n": [1, 2], "name": ["é", None], "at": [AT, AT]}
PANDAS = pd.DataFrame(ROWS)  # its times are in nanoseconds

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")


@dataclass(frozen=True)
class Model:
    weight: float


@pytest.fixture
def materialize(resource, instance):
    def execute(*assets, selection=None, **settings):
        return dg.materialize(
            [*assets, build_publish_asset("publish", assets)],
            resources={
                "graveler": resource,
                "io_manager": GravelerIOManager(graveler=resource, **settings),
            },
            instance=instance,
            selection=selection,
        )

    return execute


def passing(value, *kinds):
    """Return an asset that returns the value, and one for each kind that keeps its argument."""
    seen = {}

    @dg.asset
    def made():
        return value

    def reader(number, kind):
        def keep(made):
            seen[kind] = made

        keep.__annotations__["made"] = kind
        return dg.asset(name=f"reader_{number}")(keep)

    return [made, *(reader(number, kind) for number, kind in enumerate(kinds))], seen


def rows(frame):
    """Return the rows of a frame of any library."""
    if isinstance(frame, pyspark.sql.DataFrame):
        frame = frame.toPandas()
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    table = frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame
    table = pa.Table.from_pandas(table) if isinstance(table, pd.DataFrame) else table
    return list(zip(table["n"].to_pylist(), table["name"].to_pylist(), strict=True))


IN_MEMORY = [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.Table, pa.RecordBatchReader]


@pytest.mark.parametrize(
    "value",
    [
        PANDAS,
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        pa.table(ROWS),
        pa.table(ROWS).to_reader(),
    ],
    ids=["pandas", "polars", "polars, lazy", "arrow", "arrow, batches"],
)
def test_each_argument_gets_the_type_of_its_annotation(materialize, value):
    assets, seen = passing(value, *IN_MEMORY)
    assert materialize(*assets).success
    for kind in IN_MEMORY:
        assert isinstance(seen[kind], kind)
        assert rows(seen[kind]) == [(1, "é"), (2, None)]


def test_spark_and_the_others_read_what_the_other_wrote(spark, materialize):
    assets, seen = passing(PANDAS, pyspark.sql.DataFrame)
    assert materialize(*assets).success
    assert rows(seen[pyspark.sql.DataFrame]) == [(1, "é"), (2, None)]

    written = spark.createDataFrame([(1, "é", 7), (2, None, 8)], "n int, name string, part int")
    assets, seen = passing(written, pd.DataFrame, pl.DataFrame, pa.Table)
    result = materialize(*assets, partition_by=["part"])
    for frame in seen.values():
        assert sorted(rows(frame)) == [(1, "é"), (2, None)]
    assert sorted(seen[pd.DataFrame]["part"]) == [7, 8]  # the folder's name becomes a column
    (made,) = result.asset_materializations_for_node("made")
    assert made.metadata["dagster/row_count"].value == 2


def test_without_annotation_an_argument_gets_what_was_written(materialize):
    for value in (PANDAS, pl.DataFrame(ROWS), pa.table(ROWS), "text", b"bytes"):
        assets, seen = passing(value, object)
        assert materialize(*assets).success
        assert type(seen[object]) is type(value)


def test_load_as_decides_where_nothing_tells_the_type(spark, materialize):
    frame = spark.createDataFrame([(1, "é")], "n int, name string")
    for settings, kind in (({}, pyspark.sql.DataFrame), ({"load_as": "polars"}, pl.DataFrame)):
        assets, seen = passing(frame, object)
        assert materialize(*assets, **settings).success
        assert isinstance(seen[object], kind)


def test_times_of_pandas_come_back_as_they_were(materialize):
    frame = PANDAS.assign(exact=pd.Timestamp(1, unit="ns"))
    assets, seen = passing(frame, pd.DataFrame)
    assert materialize(*assets).success
    pd.testing.assert_frame_equal(seen[pd.DataFrame], frame)


def test_an_optional_argument_gets_its_type(materialize):
    assets, seen = passing(PANDAS, pl.DataFrame | None)
    assert materialize(*assets).success
    assert isinstance(seen[pl.DataFrame | None], pl.DataFrame)


def test_an_asset_that_changes_its_type_leaves_no_rows_behind(spark, repo, materialize):
    frame = spark.createDataFrame([(1, "old", 7)], "n int, name string, part int")
    materialize(*passing(frame)[0], partition_by=["part"])
    for value, files in (
        (PANDAS, ["made/data.parquet"]),
        (b"1", ["made/data"]),
        (pl.DataFrame(ROWS), ["made/data.parquet"]),
    ):
        assert materialize(*passing(value)[0]).success
        assert [entry.path for entry in repo.ref("main").entries("made/")] == files


def test_mode_error_refuses_files_of_another_run(repo, materialize):
    with repo.run("by hand") as run:
        run.put("made/other.parquet", b"1")
    with pytest.raises(AlreadyExistsError, match=r"made/other.parquet"):
        materialize(*passing(PANDAS)[0], mode="error")


def test_other_values_are_pickled_only_by_choice(materialize, repo):
    with pytest.raises(InvalidInputError, match=r"no type handler is for .*Model.*pickle=True"):
        materialize(*passing(Model(1.5))[0])
    assets, seen = passing(Model(1.5), Model, object)
    assert materialize(*assets, pickle=True).success
    assert seen == {Model: Model(1.5), object: Model(1.5)}
    assert [entry.path for entry in repo.ref("main").entries()] == ["made/data.pickle"]
    with pytest.raises(InvalidInputError, match="runs code"):
        materialize(*assets, selection=["reader_1"])


def test_what_cannot_be_pickled_is_refused(materialize):
    with pytest.raises(InvalidInputError, match="cannot be pickled"):
        materialize(*passing(lambda: 1)[0], pickle=True)


def test_a_frame_of_an_unknown_library_is_refused(repo, materialize):
    frame = dd.from_pandas(PANDAS, npartitions=1)
    with pytest.raises(InvalidInputError, match=r"no type handler is for dask\.dataframe"):
        materialize(*passing(frame)[0])
    with pytest.raises(InvalidInputError, match=r"argument 'made': no type handler is for dask"):
        materialize(*passing(PANDAS, type(frame))[0])
    assert list(repo.ref("main").entries()) == []


def test_a_handler_of_ones_own_comes_first(resource, instance, repo):
    class ModelHandler(TypeHandler):
        name = "model"

        def handles(self, kind):
            return issubclass(kind, Model)

        def write(self, step, table, obj):
            body = str(obj.weight).encode()
            put(step, table, "weight", body, kind=self.name, content_type="text/plain")

        def read(self, view, table, kind):
            return Model(float(view.get(f"{table.folder}weight")))

    class ModelIOManager(GravelerIOManager):
        def type_handlers(self):
            return [ModelHandler()]

    assets, seen = passing(Model(1.5), Model, object)
    assert dg.materialize(
        assets,
        resources={"io_manager": ModelIOManager(graveler=resource)},
        instance=instance,
    ).success
    assert seen == {Model: Model(1.5), object: Model(1.5)}


def test_metadata_name_the_table_its_rows_and_columns(repo, materialize):
    result = materialize(*passing(pl.LazyFrame(ROWS))[0])
    (made,) = result.asset_materializations_for_node("made")
    metadata = {name: value.value for name, value in made.metadata.items()}
    assert metadata["dagster/table_name"] == "flights.main.made"
    assert metadata["dagster/row_count"] == 2
    assert [column.name for column in metadata["dagster/column_schema"].columns] == list(ROWS)
    scheme, _, address = metadata["dagster/uri"].partition("://")
    name, ref, folder = address.split("/", 2)
    assert (scheme, name, folder) == ("grav", "flights", "made/")
    assert repo.ref(ref).exists("made/data.parquet")  # the commit outlives the branch


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")  # a beta feature of Dagster
def test_each_partition_of_a_run_has_its_own_metadata(resource, instance):
    keys = ["2013-01-01-05:00", "2013-01-01-06:00"]

    @dg.asset(partitions_def=hours, backfill_policy=dg.BackfillPolicy.single_run())
    def made():
        return {key: PANDAS.head(number + 1) for number, key in enumerate(keys)}

    result = dg.materialize(
        [made],
        resources={"io_manager": GravelerIOManager(graveler=resource)},
        instance=instance,
        tags={
            "dagster/asset_partition_range_start": keys[0],
            "dagster/asset_partition_range_end": keys[1],
        },
    )
    events = result.asset_materializations_for_node("made")
    assert {
        event.partition: (
            event.metadata["dagster/partition_row_count"].value,
            str(event.metadata["dagster/uri"].value).rpartition("made/")[2],
        )
        for event in events
    } == {keys[0]: (1, "2013/01/01/05:00/"), keys[1]: (2, "2013/01/01/06:00/")}


def test_a_folder_without_parquet_files_names_what_it_holds(spark, repo, materialize):
    with repo.run("by hand") as run:
        write(run, spark.createDataFrame([(1, "é")], "n int, name string"), "made/", format="csv")
    assets, _ = passing(PANDAS, pd.DataFrame)
    with pytest.raises(ObjectNotFoundError, match="no Parquet file at 'made/', only made/part"):
        materialize(*assets, selection=["reader_0"])


def test_a_frame_is_not_read_as_text(materialize):
    assets, _ = passing(PANDAS, str)
    with pytest.raises(ObjectNotFoundError, match=r"no text below 'made/', only made/data.parquet"):
        materialize(*assets)
