"""A compaction puts the same table into fewer files."""

from datetime import date

import pytest

import graveler.spark as gs
from graveler.errors import CorruptionError, MergeConflictError
from graveler.reads.schemas import ROWS
from graveler.spark.transactions import Transaction

COLUMNS = "id int, n int, dt date"


@pytest.fixture
def lake(repo, spark):
    return gs.Tables(repo, spark)


@pytest.fixture
def load(repo, lake, spark):
    """Append one file for each row to the table, in one commit."""

    def load(*rows, columns=COLUMNS, **options):
        with lake.transaction("main", message="load") as tx:
            for row in rows:
                frame = spark.createDataFrame([row], columns).coalesce(1)
                tx.write(frame, "t/", partition_by=["dt"], **options)

    return load


def day(number):
    return date(2026, 1, number)


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def paths(repo, prefix="t/"):
    return [entry.path for entry in repo.ref("main").entries(prefix)]


def test_a_table_is_the_same_in_fewer_files(repo, lake, load):
    load((1, 1, day(1)), (2, 1, day(1)), (3, 1, day(2)), (4, 1, None), (5, 1, None))
    load((6, 1, 0.5, day(1)), columns="id int, n int, amount double, dt date")
    before = lake.read("main", "t/")
    kept, seen = paths(repo, "t/dt=2026-01-02/"), rows(before)
    report = lake.compact("main", "t")
    assert (report.partitions, report.files_before, report.files_after) == (2, 5, 2)
    assert report.bytes_after < report.bytes_before
    assert report.commit == repo.commit("main")
    after = lake.read("main", "t/")
    assert after.dtypes == before.dtypes
    assert rows(after) == seen
    assert paths(repo, "t/dt=2026-01-02/") == kept
    assert len(paths(repo)) == 3
    assert sorted(entry.metadata[ROWS] for entry in repo.ref("main").entries("t/")) == [
        "1",
        "2",
        "3",
    ]
    again = lake.compact("main", "t/")
    assert (again.commit, again.files_before) == (None, 0)
    assert repo.commit("main") == report.commit


def test_partitions_and_sizes_are_chosen(repo, lake, load):
    load(*((number, 1, day(1 + number % 2)) for number in range(8)))
    (size,) = {entry.size for entry in repo.ref("main").entries("t/")}
    report = lake.compact("main", "t/", where={"dt": day(1)}, target_bytes=2 * size)
    assert (report.partitions, report.files_before, report.files_after) == (1, 4, 2)
    assert len(paths(repo, "t/dt=2026-01-02/")) == 4
    assert [row.id for row in lake.read("main", "t/", columns=["id"]).orderBy("id").collect()] == [
        *range(8)
    ]


@pytest.fixture
def meanwhile(monkeypatch):
    """Run a function while a compaction rewrites files."""

    def during(work):
        rewrite = Transaction._rewrite

        def and_work(self, folder, due):
            made = rewrite(self, folder, due)
            monkeypatch.undo()
            work()
            return made

        monkeypatch.setattr(Transaction, "_rewrite", and_work)

    return during


def test_what_is_overwritten_meanwhile_is_not_brought_back(lake, load, meanwhile):
    load((1, 1, day(1)), (2, 1, day(1)))
    meanwhile(lambda: load((3, 1, day(1))))
    assert lake.compact("main", "t/").files_after == 1  # what is appended stays
    assert [row[0] for row in rows(lake.read("main", "t/"))] == [1, 2, 3]
    meanwhile(lambda: load((3, 1, day(1)), mode="overwrite"))
    with pytest.raises(MergeConflictError, match="'t/dt=2026-01-01/part-"):
        lake.compact("main", "t/")
    assert [row[0] for row in rows(lake.read("main", "t/"))] == [3]


def test_a_lost_row_stops_the_compaction(repo, lake, load, monkeypatch):
    load((1, 1, day(1)), (2, 1, day(1)))
    before = repo.commit("main")
    counts = iter([2, 1])
    monkeypatch.setattr("graveler.spark.compaction.rows_of", lambda _: next(counts))
    with pytest.raises(CorruptionError, match="2 rows were rewritten as 1: nothing has landed"):
        lake.compact("main", "t/")
    assert repo.commit("main") == before
