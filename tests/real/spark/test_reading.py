import pytest
from pyspark.sql.types import IntegerType

from graveler import spark as gspark
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames.spark.loading import setting

DAYS = "id int, day string"


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def csv(branch, path, *ids):
    branch.put(path, "".join(f"{number}\n" for number in ids).encode())


def link(branch, path, file):
    branch.repository.refs.links.add(f"file://{file.parent}")
    branch.link(path, address=f"file://{file}", size=file.stat().st_size)


def test_a_folder_named_by_an_hour_is_read(spark, branch, tmp_path):
    csv(branch, "input/2013/01/01/15:00/flights.csv", 1, 2)
    folder = tmp_path / "landing" / "16:00 %20"
    folder.mkdir(parents=True)
    (folder / "a b.csv").write_text("3\n")
    link(branch, "input/2013/01/01/16:00 %20/a.csv", folder / "a b.csv")
    hour = gspark.read(branch, "input/2013/01/01/15:00/", format="csv", spark=spark)
    day = gspark.read(branch, "input/2013/01/01/", format="csv", spark=spark)
    assert rows(hour) == [("1",), ("2",)]
    assert rows(day) == [("1",), ("2",), ("3",)]


def test_a_folder_and_a_file_are_read_by_their_path(spark, branch):
    csv(branch, "t/a.csv", 1)
    csv(branch, "t/a.csv.old", 2)
    csv(branch, "t2/a.csv", 3)
    assert rows(gspark.read(branch, "t/a.csv", format="csv", spark=spark)) == [("1",)]
    assert rows(gspark.read(branch, "t", format="csv")) == [("1",), ("2",)]  # the running session
    assert type(branch.read("t/", format="csv")) is type(spark.range(1))


def test_an_empty_folder_needs_a_schema(spark, branch):
    with pytest.raises(ObjectNotFoundError, match=r"'t/'.*schema"):
        gspark.read(branch, "t/", spark=spark)
    frame = gspark.read(branch, "t/", schema=DAYS, spark=spark)
    assert frame.columns == ["id", "day"]
    assert rows(frame) == []


def test_marker_files_are_passed_over(spark, branch):
    csv(branch, "t/a.csv", 1)
    csv(branch, "t/_SUCCESS", 2)
    csv(branch, "t/_temporary/0/a.csv", 3)
    csv(branch, "t/.a.csv.crc", 4)
    assert rows(gspark.read(branch, "t/", format="csv", spark=spark)) == [("1",)]


def test_a_linked_file_that_spark_would_pass_over_is_refused(spark, branch, tmp_path):
    (tmp_path / "_a.csv").write_text("1\n")
    link(branch, "t/a.csv", tmp_path / "_a.csv")
    with pytest.raises(InvalidInputError, match="Spark skips"):
        gspark.read(branch, "t/", format="csv", spark=spark)


def test_files_named_like_patterns_are_read_once_each(spark, branch, tmp_path):
    for number, name in enumerate(("a[1].csv", "a*.csv", "a1.csv")):
        (tmp_path / name).write_text(f"{number}\n")
        link(branch, f"t/{number}.csv", tmp_path / name)
    csv(branch, "t/b.csv", 3)
    for verify in (False, True):
        frame = gspark.read(branch, "t/", format="csv", spark=spark, verify=verify)
        assert rows(frame) == [("0",), ("1",), ("2",), ("3",)]


def test_partitions_named_like_patterns_are_read(spark, branch, monkeypatch):
    values = ["{x}", "}", "[y]", "*", "z", None]
    written = spark.createDataFrame(list(enumerate(values)), "id int, v string")
    for _ in range(2):
        gspark.write(branch, written, "t/", partition_by=["v"])
    twice = sorted([*enumerate(values)] * 2)
    assert rows(gspark.read(branch, "t/", spark=spark)) == twice
    monkeypatch.setattr(
        "graveler.frames.spark.scans._MOST_GROUPS", 1
    )  # columns come from addresses
    assert rows(gspark.read(branch, "t/", spark=spark)) == twice


@pytest.mark.parametrize(
    ("columns", "older"),
    [("_metadata int, p string", "csv, Parquet"), ("id int, p string", "")],
)
def test_many_writes_are_read_where_rows_name_no_file(spark, branch, monkeypatch, columns, older):
    for row in ((1, "a"), (2, "b")):
        gspark.write(branch, spark.createDataFrame([row], columns), "t/", partition_by=["p"])
    monkeypatch.setattr("graveler.frames.spark.scans._MOST_GROUPS", 1)
    with setting(spark, "spark.sql.sources.useV1SourceList", older):
        assert rows(gspark.read(branch, "t/", spark=spark)) == [(1, "a"), (2, "b")]


def test_a_frame_is_of_the_version_it_was_made_of(spark, branch):
    csv(branch, "t/a.csv", 1)
    frame = gspark.read(branch, "t/", format="csv", spark=spark)
    csv(branch, "t/a.csv", 2)
    csv(branch, "t/b.csv", 3)
    assert rows(frame) == [("1",)]


def test_folders_below_a_table_are_left_out_on_request(spark, branch):
    csv(branch, "t/day=1/a.csv", 1)
    csv(branch, "t/day=2/b.csv", 2)
    csv(branch, "t/day=2/other/c.csv", 3)
    csv(branch, "t/other/d.csv", 4)
    frame = gspark.read(branch, "t/", format="csv", nested=False, spark=spark)
    assert rows(frame) == [("1", "1"), ("2", "2")]
    csv(branch, "u/a.csv", 5)
    csv(branch, "u/other/b.csv", 6)
    frame = gspark.read(branch, "u/", format="csv", nested=False, spark=spark)
    assert rows(frame) == [("5",)]


def test_files_written_and_files_stored_make_one_table(spark, branch):
    gspark.write(branch, spark.createDataFrame([(1, 7)], "id int, n int"), "t/", partition_by=["n"])
    gspark.write(branch, spark.createDataFrame([(2,)], "id int").coalesce(1), "one/")
    (entry,) = branch.entries("one/")
    branch.put("t/n=8/copy.parquet", branch.get(entry.path))
    frame = gspark.read(branch, "t/", spark=spark)
    assert frame.schema["n"].dataType == IntegerType()
    assert rows(frame) == [(1, 7), (2, 8)]
    typed = gspark.read(branch, "t/", schema="id int, n string", spark=spark)
    assert rows(typed) == [(1, "7"), (2, "8")]
    branch.put("t/n=x/copy.parquet", branch.get(entry.path))
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(1, "7"), (2, "8"), (2, "x")]


def test_tables_of_different_partitions_are_not_read_as_one(spark, branch):
    csv(branch, "t/day=15%3A00/a.csv", 1)
    csv(branch, "t/day=__HIVE_DEFAULT_PARTITION__/a.csv", 2)
    frame = gspark.read(branch, "t/", format="csv", schema=DAYS, spark=spark)
    assert rows(frame.na.fill("none")) == [(1, "15:00"), (2, "none")]
    csv(branch, "t/a.csv", 2)
    with pytest.raises(InvalidInputError, match=r"'day'.*one table at a time"):
        gspark.read(branch, "t/", format="csv", spark=spark)
