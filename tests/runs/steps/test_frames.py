"""Data frames in memory are read and written by one pair of methods."""

import re
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
    for name, kind in {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}.items():
        assert isinstance(step.read("flights/", name), kind)


def test_a_retry_replaces_what_was_appended(repo, run):
    for _ in range(2):
        with run.step("load") as step:
            for frame in WRITTEN:
                step.write(frame, "flights/")
    assert len(run.read("flights/", pd.DataFrame)) == 2 * len(WRITTEN)
    run.publish()
    assert len(frames.read(repo.ref("main"), "flights/", pd.DataFrame)) == 2 * len(WRITTEN)


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


def test_a_path_is_a_file_a_folder_or_a_partition(step):
    (entry,) = step.write(WRITTEN[0], "file.parquet")
    assert entry.path == "file.parquet"
    step.write(WRITTEN[0].head(1), "file.parquet", mode="overwrite")
    assert len(step.read("file.parquet", pd.DataFrame)) == 1
    step.write(WRITTEN[0], "days/2013/day=1/")
    step.write(WRITTEN[0], "days/2014/day=2/")
    assert sorted(step.read("days/", pl.DataFrame)["day"].to_list()) == [1, 1, 2, 2]
    step.write(WRITTEN[0], "nested/")
    step.write(WRITTEN[0], "nested/old/")
    assert len(step.read("nested/", pd.DataFrame, nested=False)) == 2
    step.write(pl.DataFrame({"n": [1]}), "flights")
    step.write(pl.DataFrame({"n": [2]}), "flights2")
    assert step.read("flights", pd.DataFrame)["n"].to_list() == [1]
    step.put("flights", b"a file has the name of the folder")
    with pytest.raises(InvalidInputError, match="flights: not a Parquet file"):
        step.read("flights", pd.DataFrame)
    assert step.read("flights/", pd.DataFrame)["n"].to_list() == [1]


NO_FRAME, NO_TYPE = "not a frame of pandas, polars", "not a type of frames"
NO_PARQUET = r"cannot be a Parquet file: .*a"
TWICE = pd.DataFrame([[1, 2]], columns=["a", "a"])
REFUSED = [
    *((lambda step, v=v: step.write(v, "t/"), NO_FRAME) for v in (ROWS, pd.Series([1]), b"", None)),
    *((lambda step, k=k: step.read("t/", k), NO_TYPE) for k in (dict, pd.Series, list[int], 1)),
    *(
        (
            lambda step, told=told: step.read("t/", "pandas", where=told),
            re.escape(f"where=[({form})]"),
        )
        for told, form in {
            "delay > 60": "'delay', '>', 60",
            "carrier='New York' and x": "'carrier', '=', 'New York'",
            '"a b" in (1, 2)': "'a b', '==', VALUE",
        }.items()
    ),
    (lambda step: step.read("t/", "dask"), "'dask': spark, pandas, polars, pyarrow, duckdb are"),
    (
        lambda step: step.read("t/", pd.DataFrame, spark=object(), schema="n int"),
        "schema, spark: of Spark frames only",
    ),
    (
        lambda step: step.write(WRITTEN[0], "t/", partition_by=["n"]),
        "partition_by: of Spark frames only",
    ),
    (
        lambda step: step.write(WRITTEN[0], "t/", mode="replace"),
        "mode 'replace': choose one of append",
    ),
    (lambda step: step.write(pd.DataFrame({"a": [1, "x"]}), "t/"), NO_PARQUET),
    (lambda step: step.write(TWICE, "t/"), NO_PARQUET),
    (
        lambda step: step.write(WRITTEN[0], "t/a.tsv"),
        r"a\.tsv: a frame of pandas becomes a file whose name ends with \.parquet, \.csv, ",
    ),
    (
        lambda step: step.write(WRITTEN[0], "there/", mode="error"),
        "'append' or 'overwrite'",
    ),
    (
        lambda step: step.write(WRITTEN[0], "there/file.parquet"),
        "mode 'overwrite', or into a folder",
    ),
    (lambda step: step.read("there/", "pandas"), "read one table at a time"),
    (lambda step: step.read("other/broken/", "pandas"), r"a\.parquet: not a Parquet file"),
    (lambda step: step.read("other/", "pandas"), "'other/' has files of several formats"),
    (lambda step: step.read("other/csv", "pandas", format="orc"), "'orc': give one of parquet"),
    (lambda step: step.read("other/csv", "pandas", format="delta"), "a Delta table is its log"),
    (lambda step: step.read("other/csv", "pandas", columns=["m"]), "no 'm': choose of n"),
    (lambda step: step.read("other/csv", "pandas", columns=["n", "n"]), "name each column once"),
    (lambda step: step.read("other/csv", "pandas", where={"m": 1}), "no 'm': choose of n"),
    (lambda step: step.read("other/csv", "pandas", where={"n": "1"}), "int64, and cannot be comp"),
    (lambda step: step.read("other/csv", "pandas", where=["n = 1"]), "'n = 1': give {column"),
    (lambda step: step.read("other/csv", "pandas", where=[("n", "~", 1)]), "'~'"),
    (lambda step: step.read("other/csv", "pandas", where=[("n", "<", [1])]), "with one value"),
    (lambda step: step.scan("other/csv", "pandas"), "pandas has no lazy frames"),
    (lambda step: step.scan("other/csv", pl.DataFrame), "DataFrame: not a lazy frame"),
    (lambda step: step.read("weather/", "pandas"), "write it first"),
]


@pytest.mark.parametrize(("use", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_frame_or_no_table_is_refused(step, use, said):
    step.write(WRITTEN[0], "there/file.parquet")
    step.write(WRITTEN[0], "there/day=1/")
    step.put("other/broken/a.parquet", b"no table")
    step.put("other/csv/a.csv", b"n\n1\n")
    with pytest.raises((InvalidInputError, ObjectNotFoundError, AlreadyExistsError), match=said):
        use(step)
    assert list(step.entries("t/")) == []


def test_what_is_overwritten_is_no_input(step):
    step.write(WRITTEN[0], "flights/", mode="overwrite")
    step.write(WRITTEN[0], "other.parquet", mode="error")
    assert step.inputs == ()
    step.read("flights/", pd.DataFrame)
    assert [read.prefix for read in step.inputs] == ["flights/"]


def test_a_missing_package_is_named(step, monkeypatch):
    libraries._load.cache_clear()
    monkeypatch.delitem(sys.modules, "graveler.frames.drivers.polars", raising=False)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match="`pip install polars`"):
        step.read("flights/", "polars")
