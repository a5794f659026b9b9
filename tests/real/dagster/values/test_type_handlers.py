"""One IO manager for assets that return and receive values of different types."""

from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
import dask.dataframe as dd
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dagster_graveler import GravelerIOManager, TypeHandler
from dagster_graveler.io_managers.handlers import put
from graveler.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from tests.real.dagster.programs.looking import on_main, passing, shown

AT = datetime(2013, 1, 1, 5, 30, tzinfo=UTC)
ROWS = {"n": [1, 2], "name": ["é", None], "at": [AT, AT]}
PANDAS = pd.DataFrame(ROWS)  # its times are in nanoseconds

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")


@dataclass(frozen=True)
class Model:
    weight: float


class Prices(pd.DataFrame):  # type: ignore[misc] # pandas has no types
    """A frame with a class of its own."""


class Sales(pl.DataFrame):
    """A frame with a class of its own."""


def rows(frame):
    """Return the rows of a frame of any library."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    table = frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame
    table = pa.Table.from_pandas(table) if isinstance(table, pd.DataFrame) else table
    return list(zip(table["n"].to_pylist(), table["name"].to_pylist(), strict=True))


IN_MEMORY = [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.Table, pa.RecordBatchReader]


@pytest.mark.parametrize(
    ("value", "untyped"),
    [
        (PANDAS, pd.DataFrame),
        (pl.DataFrame(ROWS), pl.DataFrame),
        (pl.LazyFrame(ROWS), pl.DataFrame),
        (pa.table(ROWS), pa.Table),
        (pa.table(ROWS).to_reader(), pa.Table),
    ],
    ids=["pandas", "polars", "polars, lazy", "arrow", "arrow, batches"],
)
def test_each_argument_gets_the_type_of_its_annotation(make, value, untyped):
    assets, seen = passing(value, *IN_MEMORY, pl.DataFrame | None, object)
    make(*assets)
    for kind in IN_MEMORY:
        assert isinstance(seen[kind], kind)
        assert rows(seen[kind]) == [(1, "é"), (2, None)]
    assert isinstance(seen[pl.DataFrame | None], pl.DataFrame)
    assert type(seen[object]) is untyped  # without annotation, what was written


@pytest.mark.parametrize("value", ["text", b"bytes", Prices({"n": [1]}), Sales({"n": [1]})])
def test_text_bytes_and_subclasses_come_back_as_they_were(make, value):
    is_frame = isinstance(value, Prices | Sales)
    assets, seen = passing(value, type(value) if is_frame else object)
    make(*assets)
    (found,) = seen.values()
    assert type(found) is type(value)
    assert is_frame or found == value


def test_times_of_pandas_come_back_as_they_were(make):
    frame = PANDAS.assign(exact=pd.Timestamp(1, unit="ns"))
    assets, seen = passing(frame, pd.DataFrame)
    make(*assets)
    pd.testing.assert_frame_equal(seen[pd.DataFrame], frame)


def test_mode_error_refuses_files_of_another_run(repo, make):
    with repo.run("by hand") as run:
        run.put("made/other.parquet", b"1")
    with pytest.raises(AlreadyExistsError, match=r"made/other.parquet"):
        make(*passing(PANDAS)[0], manager={"mode": "error"})


def test_other_values_are_pickled_only_by_choice(make, repo):
    with pytest.raises(InvalidInputError, match=r"no type handler is for .*Model.*pickle=True"):
        make(*passing(Model(1.5))[0])
    assert on_main(repo) == []
    assets, seen = passing(Model(1.5), Model, object)
    make(*assets, manager={"pickle": True})
    assert seen == {Model: Model(1.5), object: Model(1.5)}
    assert on_main(repo) == ["made/data.pickle"]
    with pytest.raises(InvalidInputError, match="runs code"):
        make(*assets, selection=["reader_1"])
    with pytest.raises(InvalidInputError, match="cannot be pickled"):
        make(*passing(lambda: 1)[0], manager={"pickle": True})


def test_a_frame_of_an_unknown_library_is_refused(repo, make):
    frame = dd.from_pandas(PANDAS, npartitions=1)
    with pytest.raises(InvalidInputError, match=r"no type handler is for dask\.dataframe"):
        make(*passing(frame)[0])
    with pytest.raises(InvalidInputError, match=r"argument 'made': no type handler is for dask"):
        make(*passing(PANDAS, type(frame))[0])
    with pytest.raises(ObjectNotFoundError, match=r"no text below 'made/', only made/data.parquet"):
        make(*passing(PANDAS, str)[0])
    assert on_main(repo) == []


def test_a_handler_of_ones_own_comes_first(resource, instance):
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
    manager = ModelIOManager(graveler=resource, load_as="model")
    dg.materialize(assets, resources={"io_manager": manager}, instance=instance)
    assert seen == {Model: Model(1.5), object: Model(1.5)}


def test_metadata_name_the_table_its_rows_and_columns(repo, make):
    metadata = shown(make(*passing(pl.LazyFrame(ROWS))[0]), "made")
    assert metadata["dagster/table_name"] == "flights.main.made"
    assert metadata["dagster/row_count"] == 2
    assert [column.name for column in metadata["dagster/column_schema"].columns] == list(ROWS)
    scheme, _, address = metadata["dagster/uri"].partition("://")
    name, ref, folder = address.split("/", 2)
    assert (scheme, name, folder) == ("grav", "flights", "made/")
    assert repo.ref(ref).exists("made/data.parquet")  # the commit outlives the branch


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")  # a beta feature of Dagster
def test_each_partition_of_a_run_has_its_own_metadata(make):
    keys = ["2013-01-01-05:00", "2013-01-01-06:00"]

    @dg.asset(partitions_def=hours, backfill_policy=dg.BackfillPolicy.single_run())
    def made():
        return {key: PANDAS.head(number + 1) for number, key in enumerate(keys)}

    events = make(made, ends=keys).asset_materializations_for_node("made")
    assert {
        event.partition: (
            event.metadata["dagster/partition_row_count"].value,
            str(event.metadata["dagster/uri"].value).rpartition("made/")[2],
        )
        for event in events
    } == {keys[0]: (1, "2013/01/01/05:00/"), keys[1]: (2, "2013/01/01/06:00/")}


LINEAGE = dg.TableColumnLineage(
    {name: [dg.TableColumnDep(dg.AssetKey("raw"), name)] for name in ("n", "gone")}
)
OWN = dg.TableColumnLineage({"n": [dg.TableColumnDep(dg.AssetKey("other"), "m")]})


def test_lineage_of_a_definition_is_shown_where_it_holds(make, capsys):
    @dg.asset(metadata={"dagster/column_lineage": LINEAGE})
    def defined():
        return pl.DataFrame({"n": [1, 2], "added": [3, 4]})

    @dg.asset(metadata={"dagster/column_lineage": LINEAGE})
    def added(context: dg.AssetExecutionContext):
        context.add_output_metadata({"dagster/column_lineage": OWN})
        return pl.DataFrame({"n": [1, 2]})

    result = make(defined, added)
    lineage = shown(result, "defined")["dagster/column_lineage"]
    assert lineage.deps_by_column == {"n": LINEAGE.deps_by_column["n"]}
    assert "does not have: gone; it has n, added" in capsys.readouterr().err
    assert shown(result, "added")["dagster/column_lineage"] == OWN
