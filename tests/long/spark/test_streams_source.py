"""The source of changes without a JVM: its reader is called as Spark's workers call it."""

import importlib
import sys
from datetime import timedelta
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

import pyspark_graveler
from graveler.errors import (
    CheckpointError,
    ExpiredError,
    InvalidInputError,
    MissingDependencyError,
    RefNotFoundError,
)
from graveler.spark.streams.source import ChangeReader

ALL = ReadAllAvailable()


@pytest.fixture
def commits(repo):
    """Four commits on main. The third is a merge, and the last changes nothing below a/."""
    main = repo.branch("main")
    main.put("a/1", b"1")
    main.put("b/1", b"1")
    first = main.commit("first")
    main.put("a/1", b"22")
    main.put("a/2", b"1")
    second = main.commit("second")
    dev = repo.create_branch("dev")
    for name in ("a/3", "a/4"):
        dev.put(name, b"1")
        dev.commit("on dev")
    dev.delete("a/2")
    dev.commit("on dev")
    repo.merge("dev", into="main")
    merged = repo.commit("main")
    main.put("b/2", b"1")
    return [first, second, merged, main.commit("fourth")]


def source(repo, **options):
    given = {"lake": repo.stores.location, "repository": repo.name, "kind": "changes", **options}
    return pyspark_graveler.DefaultSource(options=CaseInsensitiveDict(given))  # type: ignore[arg-type]  # as Spark does


@pytest.fixture
def reader(repo):
    opened: list[ChangeReader] = []

    def make(**options) -> ChangeReader:
        made = source(repo, **options)
        schema = made.schema()
        opened.append(made.streamReader(schema=schema))
        return opened[-1]

    yield make
    for one in opened:
        one.stop()


def rows(repo, reader, start, end):
    """Return the rows of a batch from tasks, which get a copy of an unused reader."""
    made = source(repo)
    schema = to_arrow_schema(made.schema(), timezone="UTC")
    copy = cloudpickle.loads(cloudpickle.dumps(made.streamReader(schema=made.schema())))
    found: list[dict[str, Any]] = []
    for partition in cloudpickle.loads(cloudpickle.dumps(reader.partitions(start, end))):
        for batch in copy.read(partition):
            assert batch.schema.equals(schema)
            batch.validate(full=True)
            found += batch.to_pylist()
    return found


def shown(found):
    return [(row["sequence"], row["kind"], row["path"]) for row in found]


FIRST = [(2, "added", "a/1"), (2, "added", "b/1")]
SECOND = [(3, "changed", "a/1"), (3, "added", "a/2")]
MERGED = [(4, "removed", "a/2"), (4, "added", "a/3"), (4, "added", "a/4")]
FOURTH = [(5, "added", "b/2")]


def test_changes_come_commit_by_commit(repo, reader, commits):
    stream = reader()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    found = rows(repo, stream, start, end)
    assert shown(found) == FIRST + SECOND + MERGED + FOURTH
    assert end == {"commit": commits[-1].id, "sequence": 5, "start": ""}
    by_number = dict(enumerate(commits, 2))
    for row in found:
        commit = by_number[row["sequence"]]
        assert (row["commit_id"], row["committed"]) == (commit.id, commit.created)
    changed = found[2]
    assert (changed["before"]["size"], changed["after"]["size"]) == (1, 2)
    assert stream.latestOffset(end, ALL) == end
    assert stream.partitions(end, end) == []


def test_a_limit_counts_commits(repo, reader, commits):
    stream = reader(maxCommitsPerTrigger="2", startingRef=commits[0].id)
    assert stream.getDefaultReadLimit() == ReadMaxFiles(2)
    assert reader().getDefaultReadLimit() == ALL
    offset, sequences = stream.initialOffset(), []
    while (end := stream.latestOffset(offset, ReadMaxFiles(2))) != offset:
        sequences.append({row["sequence"] for row in rows(repo, stream, offset, end)})
        offset = end
    assert sequences == [{1, 2}, {3}]
    assert stream.latestOffset(stream.initialOffset(), ALL)["sequence"] == 3


def test_available_now_ends_at_the_head_of_then(repo, reader, commits):
    stream = reader(maxCommitsPerTrigger="3")
    stream.prepareForTriggerAvailableNow()
    repo.branch("main").put("late", b"1")
    late = repo.branch("main").commit("late")
    middle = stream.latestOffset(stream.initialOffset(), ReadMaxFiles(3))
    end = stream.latestOffset(middle, ReadMaxFiles(3))
    assert end["commit"] == commits[-1].id
    assert stream.latestOffset(end, ReadMaxFiles(3)) == end
    assert reader().latestOffset(end, ALL)["commit"] == late.id


def test_a_prefix_and_a_branch_choose(repo, reader, commits):
    stream = reader(prefix="b/", startingRef="main~3", parallelism="1")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert end["sequence"] == 3
    assert shown(rows_of(stream, start, end)) == [(3, "added", "b/2")]
    assert len(stream.partitions(start, end)) == 1
    assert reader(branch="dev", startingRef="dev~3").initialOffset()["commit"] == commits[1].id


def rows_of(stream, start, end):
    batches = (batch for part in stream.partitions(start, end) for batch in stream.read(part))
    return [row for batch in batches for row in batch.to_pylist()]


def test_tasks_get_only_ranges_that_differ(repo, reader, commits):
    stream = reader()
    start = {"commit": commits[2].id, "sequence": 4, "start": ""}
    (part,) = stream.partitions(start, stream.latestOffset(start, ALL))
    made = source(repo)
    raw = cloudpickle.dumps((made, made.streamReader(schema=made.schema()), part))
    assert b"sqlite" not in raw
    assert "sqlite" in repr(repo.stores.kv.__dict__)  # the store does name it
    assert {one.commit_id for one in part.value} == {commits[3].id}


def test_a_rewritten_branch_is_noticed(repo, reader, commits):
    stream = reader()
    offset = stream.latestOffset(stream.initialOffset(), ALL)
    repo.undo("main")
    with pytest.raises(CheckpointError, match="undone, reset or made again") as refused:
        stream.latestOffset(offset, ALL)
    for part in (commits[3].id[:12], "number 5", f"startingRef {commits[2].id[:12]}"):
        assert part in str(refused.value)
    repo.branch("main").put("other", b"1")
    other = repo.branch("main").commit("other")
    with pytest.raises(CheckpointError, match=other.id[:12]):
        stream.latestOffset(offset, ALL)
    new = reader(startingRef=commits[2].id)
    assert new.latestOffset(new.initialOffset(), ALL)["commit"] == other.id
    gone = {**offset, "commit": "0" * 64}
    with pytest.raises(CheckpointError, match="no commit in common: start a query with a new"):
        stream.latestOffset(gone, ALL)


def test_what_has_expired_is_noticed(repo, reader, commits):
    stream = reader(startingRef=commits[0].id)
    offset = stream.initialOffset()
    repo.gc.keep("*", count=1)
    repo.gc.run(grace=timedelta(0), window=timedelta(0))
    end = stream.latestOffset(offset, ALL)
    with pytest.raises(ExpiredError, match="expired: garbage collection") as behind:
        stream.partitions(offset, end)
    assert "has not read commit" in behind.value.__notes__[0]
    for start, error in ((commits[0].id, ExpiredError), ("v1", RefNotFoundError)):
        with pytest.raises(error) as lost:
            reader(startingRef=start).initialOffset()
        assert "has no checkpoint, or has lost it" in lost.value.__notes__[0]
    with pytest.raises(InvalidInputError, match=r"not a commit of the branch.*--first-parent"):
        reader(startingRef="dev").initialOffset()
    with pytest.raises(RefNotFoundError, match="nowhere"):
        reader(branch="nowhere").latestOffset(reader().initialOffset(), ALL)


def test_what_is_a_stream_is_no_frame_and_the_other_way(repo, monkeypatch):
    made = source(repo)
    with pytest.raises(InvalidInputError, match=r"read by spark\.readStream.*kind 'diff'"):
        made.reader(schema=made.schema())
    with pytest.raises(InvalidInputError, match=r"is read by spark\.read and.*choose of changes"):
        other = source(repo, kind="refs")
        other.streamReader(schema=other.schema())
    with pytest.raises(InvalidInputError, match=r"leave out \.schema"):
        made.streamReader(schema=made.schema().add("more", "string"))
    with pytest.raises(
        InvalidInputError, match="maxCommitsPerTrigger: '0': give the number of comm"
    ):
        source(repo, maxCommitsPerTrigger="0")
    spark_4_1 = importlib.import_module("pyspark.sql.streaming.datasource")
    monkeypatch.delattr(spark_4_1, "SupportsTriggerAvailableNow")
    monkeypatch.delitem(sys.modules, "graveler.spark.streams.source")
    with pytest.raises(MissingDependencyError, match=r"PySpark 4\.2 or newer"):
        made.streamReader(schema=made.schema())
