"""Data frames in memory are read and written by one pair of methods."""

import sys
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from graveler import frames
from graveler.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MissingDependencyError,
    ObjectNotFoundError,
)
from graveler.frames import libraries

ROWS = {"n": [1, 2], "name": ["é", None]}
WRITTEN = [
    pd.DataFrame(ROWS),
    pl.DataFrame(ROWS),
    pl.LazyFrame(ROWS),
    pa.table(ROWS),
]
READ = [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.Table, pa.RecordBatchReader]


@pytest.fixture
def run(repo):
    with repo.run("hour") as run:
        yield run


@pytest.fixture
def step(run):
    with run.step("load") as step:
        yield step


def rows(frame):
    frame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    frame = frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame
    table = pa.Table.from_pandas(frame) if isinstance(frame, pd.DataFrame) else frame
    table = table.to_arrow() if isinstance(table, pl.DataFrame) else table
    return list(zip(table["n"].to_pylist(), table["name"].to_pylist(), strict=True))


@pytest.mark.parametrize("frame", WRITTEN, ids=lambda frame: type(frame).__name__)
def test_a_frame_of_one_library_is_read_as_one_of_another(step, frame):
    step.write(frame, "flights/")
    for kind in READ:
        read = step.read("flights/", kind)
        assert isinstance(read, kind)
        assert rows(read) == [(1, "é"), (2, None)]


def test_a_type_of_frames_may_be_named_by_its_library(step):
    step.write(WRITTEN[0], "flights/")
    assert isinstance(step.read("flights/", "pandas"), pd.DataFrame)
    assert isinstance(step.read("flights/", "polars"), pl.DataFrame)
    assert isinstance(step.read("flights/", "pyarrow"), pa.Table)


def test_appended_frames_are_read_as_one(step):
    for frame in WRITTEN:
        step.write(frame, "flights/")
    assert len(step.read("flights/", pd.DataFrame)) == 2 * len(WRITTEN)


def test_tables_of_other_widths_and_fields_are_read_as_one(step):
    inner = [pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string(), nullable=False)]
    few, many = pa.struct(inner[:1]), pa.struct(inner)
    for number, (whole, struct) in enumerate([(pa.int32(), few), (pa.int64(), many)]):
        row = {"a": number, "b": "x"}
        columns = {
            "n": pa.array([number], whole),
            "s": pa.array([row], struct),
            "l": pa.array([[row]], pa.list_(struct)),
            "m": pa.array([[("k", row)]], pa.map_(pa.string(), struct)),
        }
        step.write(pa.table(columns), "t/")
    step.write(pa.table({"n": pa.array([Decimal("2.5")], pa.decimal128(5, 1))}), "t/")
    for kind in ("pyarrow", "pandas", "polars"):
        step.read("t/", kind)
    rows = sorted(step.read("t/", "pyarrow").to_pylist(), key=lambda row: row["n"])
    assert [row["n"] for row in rows] == [0, 1, Decimal("2.5")]
    assert [row["s"] for row in rows] == [{"a": 0, "b": None}, {"a": 1, "b": "x"}, None]
    assert rows[0]["l"] == [{"a": 0, "b": None}]
    assert rows[0]["m"] == [("k", {"a": 0, "b": None})]


def test_overwriting_replaces_the_folder(step):
    step.write(WRITTEN[0], "flights/")
    step.write(WRITTEN[0], "flights/day=1/")
    step.write(WRITTEN[1], "flights/", mode="overwrite")
    assert [entry.path for entry in step.entries("flights/")] == ["flights/data.parquet"]
    assert step.stat("flights/data.parquet").metadata == {"graveler.type": "polars"}


def test_mode_error_refuses_a_folder_with_files(step):
    step.write(WRITTEN[0], "flights/", mode="error")
    with pytest.raises(AlreadyExistsError, match="'append' or 'overwrite'"):
        step.write(WRITTEN[0], "flights/", mode="error")


def test_a_path_with_suffix_is_one_file(step):
    (entry,) = step.write(WRITTEN[0], "flights.parquet")
    assert entry.path == "flights.parquet"
    assert rows(step.read("flights.parquet", pd.DataFrame)) == [(1, "é"), (2, None)]
    with pytest.raises(AlreadyExistsError, match="mode 'overwrite', or into a folder"):
        step.write(WRITTEN[0], "flights.parquet")
    step.write(WRITTEN[0].head(1), "flights.parquet", mode="overwrite")
    assert len(step.read("flights.parquet", pd.DataFrame)) == 1


def test_value_folders_are_columns(step):
    step.write(WRITTEN[0], "flights/2013/day=1/")
    step.write(WRITTEN[0], "flights/2014/day=2/")
    read = step.read("flights/", pl.DataFrame)
    assert sorted(read["day"].to_list()) == [1, 1, 2, 2]


def test_tables_of_different_columns_are_refused(step):
    step.write(WRITTEN[0], "flights/day=1/")
    step.write(WRITTEN[0], "flights/hour=1/")
    with pytest.raises(InvalidInputError, match="read one table at a time"):
        step.read("flights/", pd.DataFrame)


def test_folders_below_are_left_out_on_request(step):
    step.write(WRITTEN[0], "flights/")
    step.write(WRITTEN[0], "flights/old/")
    assert len(step.read("flights/", pd.DataFrame, nested=False)) == 2


def test_a_run_and_a_ref_are_read_like_a_step(repo, run):
    with run.step("load") as step:
        step.write(WRITTEN[0], "flights/")
    assert len(run.read("flights/", pd.DataFrame)) == 2
    run.publish()
    assert len(frames.read(repo.ref("main"), "flights/", pd.DataFrame)) == 2


def test_a_retry_replaces_what_was_appended(run):
    for _ in range(2):
        with run.step("load") as step:
            step.write(WRITTEN[0], "flights/")
    assert len(run.read("flights/", pd.DataFrame)) == 2


def test_what_is_overwritten_is_no_input(step):
    step.write(WRITTEN[0], "flights/", mode="overwrite")
    step.write(WRITTEN[0], "other.parquet", mode="error")
    assert step.inputs == ()
    step.read("flights/", pd.DataFrame)
    assert [read.prefix for read in step.inputs] == ["flights/"]


def test_a_value_that_is_no_frame_is_refused(step):
    for value in (ROWS, pd.Series([1]), b"bytes", None):
        with pytest.raises(InvalidInputError, match="not a frame of pandas, polars"):
            step.write(value, "flights/")


def test_a_type_that_is_no_frame_is_refused(step):
    for kind in (dict, pd.Series, list[int], None):
        with pytest.raises(InvalidInputError, match="not a type of frames"):
            step.read("flights/", kind)


def test_a_library_of_an_unknown_name_is_refused(step):
    with pytest.raises(InvalidInputError, match="'dask': spark, pandas, polars, pyarrow are"):
        step.read("flights/", "dask")


def test_arguments_of_spark_frames_are_refused(step):
    with pytest.raises(InvalidInputError, match="spark, format: of Spark frames only"):
        step.read("flights/", pd.DataFrame, spark=object(), format="csv")
    with pytest.raises(InvalidInputError, match="partition_by: of Spark frames only"):
        step.write(WRITTEN[0], "flights/", partition_by=["n"])
    with pytest.raises(InvalidInputError, match="mode 'replace': choose one of append"):
        step.write(WRITTEN[0], "flights/", mode="replace")


def test_a_folder_is_read_by_the_path_it_was_written_to(step):
    step.write(pl.DataFrame({"n": [1]}), "flights")
    step.write(pl.DataFrame({"n": [2]}), "flights2")
    assert step.read("flights", pd.DataFrame)["n"].to_list() == [1]
    step.put("flights", b"a file has the name of the folder")
    with pytest.raises(ObjectNotFoundError, match="only flights:"):
        step.read("flights", pd.DataFrame)
    assert step.read("flights/", pd.DataFrame)["n"].to_list() == [1]


def test_a_file_that_is_not_parquet_is_named(step):
    step.put("flights/a.parquet", b"no table")
    with pytest.raises(InvalidInputError, match=r"flights/a\.parquet: not a Parquet file"):
        step.read("flights/", pd.DataFrame)


def test_a_frame_that_parquet_cannot_hold_is_refused(step):
    for frame in (pd.DataFrame({"a": [1, "x"]}), pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(InvalidInputError, match=r"cannot be a Parquet file: .*a"):
            step.write(frame, "flights/")
    with pytest.raises(
        InvalidInputError, match=r"a\.csv: a frame of pandas becomes a Parquet file"
    ):
        step.write(WRITTEN[0], "flights/a.csv")
    assert [entry.path for entry in step.entries("flights/")] == []


def test_a_table_without_parquet_files_names_the_others(step):
    step.put("flights/a.csv", b"n\n1\n")
    with pytest.raises(ObjectNotFoundError, match=r"only flights/a\.csv"):
        step.read("flights/", pd.DataFrame)
    with pytest.raises(ObjectNotFoundError, match=r"only flights/a\.csv"):
        step.read("flights", pd.DataFrame)
    with pytest.raises(ObjectNotFoundError, match="write it first"):
        step.read("weather/", pd.DataFrame)


def test_a_missing_package_is_named(step, monkeypatch):
    libraries._load.cache_clear()
    monkeypatch.delitem(sys.modules, "graveler.frames.polars", raising=False)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match="`pip install polars`"):
        step.read("flights/", "polars")
