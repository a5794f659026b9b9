"""Schemas and row counts that are stored with the entries of Parquet files."""

import io
import json

import pyarrow
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

import graveler.frames
import graveler.spark as gs
from graveler.errors import InvalidInputError, SchemaChangedError
from graveler.frames.spark.schemas import check_schema
from graveler.reads.schemas import PARTITIONS, ROWS, SCHEMA


@pytest.fixture
def write(branch, spark):
    def write(rows, columns, **options):
        frame = spark.createDataFrame(rows, columns).coalesce(1)
        return gs.write(branch, frame, "t/", **options)

    return write


def names(text):
    return [field["name"] for field in json.loads(text)["fields"]]


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def types(frame):
    return [kind for _, kind in frame.dtypes]


def test_an_entry_says_what_its_file_holds(branch, write):
    rows = [(1, "a", 0), (2, "a", 0), (3, "b", 0)]
    write(rows, "id int, dt string, n long", partition_by=["n", "dt"])
    kept = [entry.metadata for entry in branch.entries("t/")]
    assert [pairs[ROWS] for pairs in kept] == ["2", "1"]
    assert [names(pairs[SCHEMA]) for pairs in kept] == [["id"]] * 2
    assert [names(pairs[PARTITIONS]) for pairs in kept] == [["n", "dt"]] * 2


def test_other_libraries_read_text_of_partitions_as_text(branch, write):
    write([(1, "7", 2)], "id int, dt string, h int", partition_by=["dt", "h"])
    rows = graveler.frames.read(branch, "t/", "pyarrow").to_pylist()
    assert rows == [{"id": 1, "dt": "7", "h": 2}]


def test_no_footer_is_opened_to_plan_a_read(branch, write, spark):
    write([(1, "01")], "id int, dt string", partition_by=["dt"])
    (entry,) = branch.entries("t/")
    branch.repository.objects.put(entry.address, bytes(entry.size))
    frame = gs.read(branch, "t/", spark=spark)
    assert frame.dtypes == [("id", "int"), ("dt", "string")]
    inside = gs.read(branch, "t/dt=01/", spark=spark)
    assert inside.dtypes == [("id", "int")]


def test_columns_that_differ_in_case_are_one(branch, write, spark):
    write([(1, "a")], "id int, dt string", partition_by=["dt"])
    write([(2, "b")], "ID int, dt string", partition_by=["dt"])
    frame = gs.read(branch, "t/", spark=spark)
    assert sorted(tuple(row) for row in frame.select("id", "dt").collect()) == [(1, "a"), (2, "b")]


def test_a_file_without_a_schema_leaves_it_to_spark(branch, write, spark):
    write([(1,)], "id int")
    (entry,) = branch.entries("t/")
    branch.put("t/copy.parquet", branch.get(entry.path))
    frame = gs.read(branch, "t/", spark=spark)
    assert (frame.count(), types(frame)) == (2, ["int"])
    with pytest.raises(SchemaChangedError, match="'id' is bigint, not int"):
        write([(1,)], "id long", schema="same")


@pytest.fixture
def put_parquet(branch):
    """Put a Parquet file whose entry has no schema."""

    def put(path, **columns):
        body = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), body)
        branch.put(path, body.getvalue())

    return put


@pytest.mark.classic("a client of Spark Connect does not learn of jobs")
def test_a_schema_of_many_partitions_is_found_in_one_job(branch, put_parquet, spark):
    for day in range(5):
        put_parquet(f"t/day={day}/a.parquet", id=[day])
    spark.sparkContext.setJobGroup("planning", "a read")
    try:
        frame = gs.read(branch, "t/", spark=spark)
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("planning")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(jobs) == 1
    assert frame.dtypes == [("id", "bigint"), ("day", "string")]
    assert sorted(frame.collect()) == [(day, str(day)) for day in range(5)]


def test_a_damaged_file_is_for_spark_to_name(branch, put_parquet, spark):
    put_parquet("t/day=0/a.parquet", id=[1])
    branch.put("t/day=1/a.parquet", b"no Parquet at all")
    with pytest.raises((PySparkException, Py4JError), match="Could not read footer"):
        gs.read(branch, "t/", spark=spark).collect()


def test_a_changed_schema_is_refused_before_a_file_is_written(branch, write):
    write([(1, "a")], "id int, name string", schema="same")
    before = [info.key for info in branch.repository.objects.list("data/")]
    with pytest.raises(
        SchemaChangedError, match=r"'t/': .*'id' is bigint, not int.*'n' \(int\) is new"
    ):
        write([(1, "a", 1)], "id long, name string, n int", schema="same")
    with pytest.raises(SchemaChangedError, match=r"'name' \(string\) is missing"):
        write([(1,)], "id int", schema="same")
    with pytest.raises(SchemaChangedError, match="'id' is string, not int"):
        write([("1", 1)], "id string, n int", schema="evolve")
    assert [info.key for info in branch.repository.objects.list("data/")] == before


@pytest.mark.parametrize("rule", ["same", "evolve"])
def test_order_and_nulls_are_no_part_of_a_schema(rule):
    one = StructType().add("a", "integer").add("b", "string", nullable=False)
    other = StructType().add("b", "string").add("a", "integer", nullable=False)
    check_schema("t/", one, other, rule)


def test_partitions_of_other_programs_may_have_other_columns(branch, put_parquet, spark):
    put_parquet("t/dt=1/a.parquet", id=[1], n=[{"a": 1}])
    put_parquet("t/dt=2/a.parquet", id=[2], n=[{"a": 2, "b": 3}], x=["new"])
    frame = gs.read(branch, "t/", spark=spark)
    assert frame.columns == ["id", "n", "x", "dt"]
    assert rows(frame.select("id", "n.b", "x", "dt")) == [(1, None, None, "1"), (2, 3, "new", "2")]


def test_a_column_that_is_text_in_some_partitions_is_text(branch, put_parquet, spark):
    put_parquet("t/dt=1/a.parquet", id=[1])
    put_parquet("t/dt=2/a.parquet", id=["01 x"])
    put_parquet("t/dt=3/a.parquet", x=[1])
    frame = gs.read(branch, "t/", columns=["id", "dt"], spark=spark)
    assert sorted(frame.collect(), key=str) == [("01 x", "2"), ("1", "1"), (None, "3")]


def test_columns_that_do_not_go_together_are_an_error(branch, put_parquet, spark):
    put_parquet("t/dt=1/a.parquet", id=[1])
    put_parquet("t/dt=2/a.parquet", id=[[2]])
    with pytest.raises(InvalidInputError, match=r"'t/'.*first column.*give a schema"):
        gs.read(branch, "t/", spark=spark)


@pytest.mark.parametrize(("kind", "options"), [("json", {}), ("csv", {"inferSchema": "true"})])
def test_columns_are_guessed_of_all_files(branch, write, spark, kind, options):
    write([(1, "1")], "n int, dt string", format=kind, partition_by=["dt"])
    write([("x", "2")], "n string, dt string", format=kind, partition_by=["dt"])
    branch.put("t/dt=3/a", b'{"n": 2.5}' if kind == "json" else b"2.5")
    frame = gs.read(branch, "t/", format=kind, options=options, spark=spark)
    assert types(frame) == ["string", "string"]
    assert rows(frame) == [("1", "1"), ("2.5", "3"), ("x", "2")]
