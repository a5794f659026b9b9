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


def test_what_was_written_reads_back(spark, branch):
    written = gspark.write(branch, frame(spark, (1, "a"), (2, "b")), "tables/days/")
    assert written == list(branch.entries("tables/days/"))
    assert rows(gspark.read(branch, "tables/days/", spark=spark)) == [(1, "a"), (2, "b")]


def test_entries_say_size_and_checksum_of_the_files(spark, branch):
    (entry,) = gspark.write(branch, frame(spark, (1, "a")), "tables/days")
    body = branch.get(entry.path)
    assert entry.path.startswith("tables/days/part-00000-")
    assert entry.size == len(body)
    assert entry.checksum == f"sha256:{hashlib.sha256(body).hexdigest()}"


def test_nothing_but_data_files_stays_in_the_storage(spark, branch):
    written = gspark.write(branch, frame(spark, (1, "a")), "t/", partition_by=["day"])
    below = [info.key for info in branch.repository.objects.list("data/")]
    assert below == [entry.address for entry in written]


def test_append_keeps_what_is_there(spark, branch):
    gspark.write(branch, frame(spark, (1, "a")), "t/")
    gspark.write(branch, frame(spark, (1, "a")), "t/", mode="append")
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(1, "a"), (1, "a")]


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


def test_an_owner_is_refused_where_nothing_is_appended(spark, branch):
    with pytest.raises(InvalidInputError, match="only for mode 'append'"):
        gspark.write(branch, frame(spark, (1, "a")), "t/", mode="overwrite", owner="one")
    assert paths(branch) == []


def test_overwrite_replaces_the_folder_and_nothing_beside_it(spark, branch):
    gspark.write(branch, frame(spark, *((n, "a") for n in range(8))).repartition(4), "t/")
    gspark.write(branch, frame(spark, (1, "b")), "t2/")
    gspark.write(branch, frame(spark, (9, "z")), "t/", mode="overwrite")
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(9, "z")]
    assert rows(gspark.read(branch, "t2/", spark=spark)) == [(1, "b")]


def test_overwriting_with_equal_rows_changes_only_the_address(spark, branch):
    def content():
        gspark.write(branch, frame(spark, (1, "a"), (2, "b")), "t/", mode="overwrite")
        return [(entry.path, entry.checksum, entry.size) for entry in branch.entries("t/")]

    first = content()
    assert first == content()
    assert [path for path, _, _ in first] == ["t/part-00000-c000.snappy.parquet"]


def test_overwriting_partitions_leaves_the_others(spark, branch):
    gspark.write(branch, frame(spark, (1, "a"), (2, "b")), "t/", partition_by=["day"])
    kept = paths(branch, "t/day=a/")
    gspark.write(
        branch, frame(spark, (3, "b"), (4, "c")), "t/", mode="overwrite", partition_by=["day"]
    )
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(1, "a"), (3, "b"), (4, "c")]
    assert paths(branch, "t/day=a/") == kept


def test_a_partition_is_replaced_however_it_is_spelled(spark, branch):
    gspark.write(branch, frame(spark, (1, "05:00"), (2, "a b")), "t/", partition_by=["day"])
    (there, *_) = branch.entries("t/day=05")
    for name in ("t/day=05:00/a.parquet", "t/day=a%20b/a.parquet", "t/x/day=a b/a.parquet"):
        branch.put(name, branch.get(there.path))
    new = frame(spark, (3, "05:00"), (4, "a b"))
    gspark.write(branch, new, "t/", mode="overwrite", partition_by=["day"])
    assert rows(gspark.read(branch, "t/", spark=spark, nested=False)) == [(3, "05:00"), (4, "a b")]
    assert paths(branch, "t/x/") == ["t/x/day=a b/a.parquet"]


@pytest.mark.parametrize(("kind", "left"), [("int", ["1", "2"]), ("string", ["01", "1", "2"])])
def test_a_number_is_replaced_however_it_is_written(spark, branch, kind, left):
    new = frame(spark, (2, "1"), (2, "2")).selectExpr("id", f"cast(day as {kind}) month")
    (there,) = gspark.write(branch, frame(spark, (1, "a")).select("id"), "u/")
    branch.put("t/month=01/a.parquet", branch.get(there.path))
    gspark.write(branch, new, "t/", mode="overwrite", partition_by=["month"])
    found = [path.split("/")[1].removeprefix("month=") for path in paths(branch, "t/")]
    assert found == left


def test_what_no_reader_would_see_is_refused(spark, branch):
    with pytest.raises(InvalidInputError, match="'a//b': a part of it is empty"):
        gspark.write(branch, frame(spark, (1, "a")), "a//b")
    hidden = frame(spark, (1, "a")).withColumnRenamed("day", ".day")
    with pytest.raises(InvalidInputError, match=r"'\.day': Spark skips"):
        gspark.write(branch, hidden, "t/", partition_by=[".day"])
    assert not list(branch.repository.objects.list("data/"))


def test_partition_columns_are_spelled_as_in_the_frame(spark, branch):
    gspark.write(branch, frame(spark, (1, "a")), "t/", partition_by=["DAY"])
    gspark.write(branch, frame(spark, (2, "b")), "t/", partition_by=["day"])
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(1, "a"), (2, "b")]


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
    written = gspark.write(
        branch,
        frame(spark, *enumerate(days)),
        "t/",
        mode="overwrite",
        partition_by=["day"],
    )
    assert [entry.path for entry in written] == [
        f"t/day={day}/part-00000.c000.snappy.parquet" for day in days
    ]
    assert rows(gspark.read(branch, "t/", spark=spark)) == list(enumerate(days))


def test_overwriting_partitions_with_no_rows_changes_nothing(spark, branch):
    gspark.write(branch, frame(spark, (1, "a")), "t/", partition_by=["day"])
    before = list(branch.entries())
    empty = frame(spark, (1, "a")).where("id > 1")
    assert gspark.write(branch, empty, "t/", mode="overwrite", partition_by=["day"]) == []
    assert list(branch.entries()) == before


def test_overwriting_with_no_rows_leaves_an_empty_table(spark, branch):
    gspark.write(branch, frame(spark, (1, "a")), "t/")
    gspark.write(branch, frame(spark, (1, "a")).where("id > 1"), "t/", mode="overwrite")
    left = gspark.read(branch, "t/", spark=spark)
    assert left.columns == ["id", "day"]
    assert rows(left) == []


def test_mode_error_refuses_where_something_is(spark, branch):
    gspark.write(branch, frame(spark, (1, "a")), "t/", mode="error")
    with pytest.raises(AlreadyExistsError, match="t/part-00000"):
        gspark.write(branch, frame(spark, (2, "b")), "t/", mode="error")
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(1, "a")]


def test_an_unknown_mode_is_refused_before_anything_is_written(spark, branch):
    with pytest.raises(InvalidInputError, match="'merge'"):
        gspark.write(branch, frame(spark, (1, "a")), "t/", mode="merge")  # type: ignore[arg-type]
    assert not list(branch.repository.objects.list("data/"))


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


def test_partition_folders_are_spelled_as_hive_does(spark, branch):
    (entry,) = gspark.write(
        branch, frame(spark, (1, "15:00 50%")), "t/", mode="overwrite", partition_by=["day"]
    )
    assert entry.path == "t/day=15%3A00 50%25/part-00000.c000.snappy.parquet"
    assert rows(gspark.read(branch, "t/", spark=spark)) == [(1, "15:00 50%")]


def test_a_frame_of_another_library_is_refused(branch):
    with pytest.raises(InvalidInputError, match=r"pandas\..*DataFrame is not a frame of Spark"):
        gspark.write(branch, pd.DataFrame({"id": [1]}), "t/")
    assert not list(branch.uncommitted())
