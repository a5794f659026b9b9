import hashlib
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException

from graveler import spark as gspark
from graveler.errors import AlreadyExistsError, InvalidInputError


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def paths(branch, prefix=""):
    return [entry.path for entry in branch.entries(prefix)]


def frame(spark, *values):
    return spark.createDataFrame(list(values), "id int, day string").coalesce(1)


def test_what_is_appended_stays_with_size_and_checksum(spark, branch):
    (entry,) = written = gspark.write(branch, frame(spark, (1, "a")), "tables/days")
    assert written == list(branch.entries("tables/days/"))
    body = branch.get(entry.path)
    assert entry.path.startswith("tables/days/part-00000-")
    assert entry.size == len(body)
    assert entry.checksum == f"sha256:{hashlib.sha256(body).hexdigest()}"
    below = [info.key for info in branch.repository.objects.list("data/")]
    assert below == [entry.address]  # and no markers of Spark
    gspark.write(branch, frame(spark, (1, "a")), "tables/days/")
    assert rows(gspark.read(branch, "tables/days/", spark=spark)) == [(1, "a"), (1, "a")]


def test_wrong_arguments_are_refused_before_anything_is_written(spark, branch):
    one = frame(spark, (1, "a"))
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (one, {"mode": "merge"}, "'merge'"),
        (one, {"mode": "overwrite", "owner": "one"}, "only for mode 'append'"),
        (pd.DataFrame({"id": [1]}), {}, r"pandas\..*DataFrame is not a frame of Spark"),
    ]
    for given, options, message in wrong:
        with pytest.raises(InvalidInputError, match=message):
            gspark.write(branch, given, "t/", **options)
    assert not list(branch.repository.objects.list("data/"))
    gspark.write(branch, one, "t/", mode="error")
    with pytest.raises(AlreadyExistsError, match="t/part-00000"):
        gspark.write(branch, one, "t/", mode="error")
    assert len(paths(branch)) == 1


def test_an_owner_who_appends_again_replaces_its_own_rows_alone(spark, branch):
    gspark.write(branch, frame(spark, (0, "a")), "t/", partition_by=["day"])
    for owner, values in (
        ("one", [(1, "a"), (2, "b")]),
        ("two", [(3, "a")]),
        ("one", [(4, "a")]),  # b is empty now
    ):
        gspark.write(branch, frame(spark, *values), "t/", partition_by=["day"], owner=owner)
    found = gspark.read(branch, "t/", spark=spark).select("id", "day")
    assert rows(found) == [(0, "a"), (3, "a"), (4, "a")]


def test_overwrite_replaces_the_folder_and_nothing_beside_it(spark, branch):
    gspark.write(branch, frame(spark, *((n, "a") for n in range(8))).repartition(4), "t/")
    gspark.write(branch, frame(spark, (1, "b")), "t2/")
    gspark.write(branch, frame(spark, (9, "z")), "t/", mode="overwrite")
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(9, "z")]
    assert rows(gspark.read(branch, "t2/", spark=spark)) == [(1, "b")]


def test_overwriting_with_equal_or_no_rows(spark, branch):
    def content():
        gspark.write(branch, frame(spark, (1, "a"), (2, "b")), "t/", mode="overwrite")
        return [(entry.path, entry.checksum, entry.size) for entry in branch.entries("t/")]

    first = content()
    assert first == content()  # only the address changes
    assert [path for path, _, _ in first] == ["t/part-00000-c000.snappy.parquet"]
    empty = frame(spark, (1, "a")).where("id > 1")
    gspark.write(branch, empty, "t/", mode="overwrite")
    left = gspark.read(branch, "t/", spark=spark)
    assert (left.columns, rows(left)) == (["id", "day"], [])
    gspark.write(branch, frame(spark, (1, "a")), "u/", partition_by=["day"])
    before = list(branch.entries())
    assert gspark.write(branch, empty, "u/", mode="overwrite", partition_by=["day"]) == []
    assert list(branch.entries()) == before


def test_a_partition_is_replaced_however_it_is_spelled(spark, branch):
    gspark.write(branch, frame(spark, (1, "05:00"), (2, "a b")), "t/", partition_by=["day"])
    (there, *_) = branch.entries("t/day=05")
    for name in ("t/day=05:00/a.parquet", "t/day=a%20b/a.parquet", "t/x/day=a b/a.parquet"):
        branch.put(name, branch.get(there.path))
    new = frame(spark, (3, "05:00"), (4, "a b"))
    gspark.write(branch, new, "t/", mode="overwrite", partition_by=["day"])
    assert rows(gspark.read(branch, "t/", spark=spark, nested=False)) == [(3, "05:00"), (4, "a b")]
    assert paths(branch, "t/x/") == ["t/x/day=a b/a.parquet"]


def test_what_no_reader_would_see_is_refused(spark, branch):
    with pytest.raises(InvalidInputError, match="'a//b': a part of it is empty"):
        gspark.write(branch, frame(spark, (1, "a")), "a//b")
    hidden = frame(spark, (1, "a")).withColumnRenamed("day", ".day")
    with pytest.raises(InvalidInputError, match=r"'\.day': Spark skips"):
        gspark.write(branch, hidden, "t/", partition_by=[".day"])
    assert not list(branch.repository.objects.list("data/"))


def test_a_table_keeps_its_partition_columns(spark, branch):
    gspark.write(branch, frame(spark, (1, "a")), "t/", partition_by=["day"])
    before = paths(branch)
    refused: list[tuple[Any, list[str]]] = [
        ("append", []),
        ("append", ["id", "day"]),
        ("overwrite", ["id"]),
    ]
    for mode, columns in refused:
        with pytest.raises(
            InvalidInputError, match=r"'t/' is partitioned by \['day'\], as in 'day=a"
        ):
            gspark.write(branch, frame(spark, (2, "b")), "t/", mode=mode, partition_by=columns)
    assert paths(branch) == before
    gspark.write(branch, frame(spark, (2, "b")), "t/", mode="overwrite")
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(2, "b")]
    for columns in (["day"], []):  # files that the owner replaces do not count
        gspark.write(branch, frame(spark, (3, "c")), "u/", partition_by=columns, owner="one")
    assert rows(gspark.read(branch, "u/", spark=spark)) == [(3, "c")]


def test_partitions_named_by_ids_stay_apart(spark, branch):
    days = [f"on-{digit * 8}-0000-4000-8000-{digit * 12}-x" for digit in "ab"]
    days.append("15:00 50%")  # spelled as Hive does
    written = gspark.write(
        branch,
        frame(spark, *enumerate(days)),
        "t/",
        mode="overwrite",
        partition_by=["DAY"],  # a column is spelled as in the frame
    )
    folders = [*days[:2], "15%3A00 50%25"]
    assert {entry.path for entry in written} == {
        f"t/day={day}/part-00000.c000.snappy.parquet" for day in folders
    }
    assert rows(gspark.read(branch, "t/", spark=spark)) == list(enumerate(days))


def test_what_a_failed_job_wrote_is_never_linked(spark, branch):
    gspark.write(branch, frame(spark, (0, "a")), "t/")
    before = list(branch.entries())
    one_task_fails = spark.range(0, 1000, numPartitions=4).selectExpr(
        "cast(id as int) id", "if(id < 999, 'a', raise_error('boom')) day"
    )
    with pytest.raises(PySparkException, match="boom"):
        gspark.write(branch, one_task_fails, "t/", mode="overwrite")
    assert list(branch.entries()) == before


def test_other_formats_keep_their_suffix(spark, branch):
    (entry,) = gspark.write(
        branch, frame(spark, (1, "a")), "t/", format="csv", options={"header": "true"}
    )
    assert entry.path.endswith(".csv")
    assert branch.get(entry.path) == b"id,day\n1,a\n"
