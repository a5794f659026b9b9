"""Which files a batch of changes adds to a table, without a JVM."""

import pytest

import graveler
from graveler.errors import StateError
from graveler.spark.streams.rows import COMPACTION, added_files


@pytest.fixture
def repo(tmp_path):
    with graveler.init(tmp_path) as lake:
        yield lake.create_repository("tables")


def load(branch, *paths):
    for path in paths:
        branch.put(path, path.encode())
    return branch.commit("load")


def compact(branch, old, new):
    """Commit as a compaction does: one commit that names its table."""
    branch.put(new, b"all")
    branch.delete_many(old)
    return branch.commit("compact", metadata={COMPACTION: "t/"})


def added(repo, *commits):
    changes = [
        (commit.id, change.kind, change.path)
        for commit in commits
        for change in repo.diff(commit.parents[0], commit, prefix="t/")
    ]
    files = added_files(repo, "t/", changes)
    return None if files is None else [entry.path for entry in files.entries()]


def test_files_that_spark_skips_are_not_of_the_table(repo):
    main = repo.branch("main")
    first = load(main, "t/a", "t/_SUCCESS", "t10/a")
    assert added(repo, first) == ["t/a"]
    marked = load(main, "t/_metadata", "t/.part.crc")
    assert added(repo, marked) is None
    main.put("t/_metadata", b"other")
    main.delete("t/.part.crc")
    main.put("t/b", b"b")
    assert added(repo, first, marked, main.commit("next")) == ["t/a", "t/b"]
    with pytest.raises(StateError, match=r"'t/' is not only appended to: 't/a' was removed"):
        main.delete("t/a")
        added(repo, main.commit("delete"))


def test_a_compaction_is_passed_over_and_a_copy_of_it_is_not(repo):
    main, dev = repo.branch("main"), repo.create_branch("dev")
    load(dev, "t/a")
    load(dev, "t/b")
    packed = compact(dev, ["t/a", "t/b"], "t/ab")
    assert added(repo, packed) is None
    picked = repo.cherry_pick(packed, onto="main")
    assert [entry.path for entry in main.entries()] == ["t/ab"]
    assert added(repo, picked) == ["t/ab"]
