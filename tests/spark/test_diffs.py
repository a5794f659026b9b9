"""Differences found by tasks, compared with those of all entries, without Spark."""

import pickle
import random

import pytest

import graveler
from graveler.committed.metarange import read
from graveler.committed.splitting import Splitting
from graveler.model import Entry
from graveler.spark.metadata.options import Request
from graveler.spark.metadata.trees import TreeReader
from graveler.testing.world import link_unseen

PREFIXES = ("", "t1/", "t1/d3/1", "t2/d6/99", "none/")


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("tables", splitting=Splitting(raggedness=5))


def commit(branch, paths, version):
    entries = (Entry(path, f"data/{path}-{version}", 1, checksum="") for path in paths)
    link_unseen(branch, entries)
    return branch.commit(str(version))


def path(number):
    return f"t{number % 3}/d{number % 7}/{number:04}"


def by_tasks(repo, base, ref, prefix="", parallelism=0):
    """Return the rows that tasks find, in order, and the ids of the ranges that they read."""
    trees = [repo.commit(each).metarange for each in (base, ref)]
    request = Request("", repo.name, "diff", prefix=prefix, parallelism=parallelism)
    planned = TreeReader(repo.stores.ranges, request, trees)
    rows, opened = [], set()
    for part in planned.partitions():
        reader, mine = pickle.loads(pickle.dumps((planned, part)))
        rows += [row for batch in reader.read(mine) for row in batch.to_pylist()]
        opened |= {info.id for side in mine.value for info in side}
    return [_short(row) for row in rows], opened


def _short(row):
    sides = (row[side] and row[side]["address"] for side in ("before", "after"))
    return row["path"], row["kind"], *sides


def compared(repo, base, ref, prefix=""):
    """Return the differences by a comparison of all entries."""
    left, right = (
        {entry.path: entry.address for entry in repo.ref(each).entries(prefix)}
        for each in (base, ref)
    )
    rows = []
    for name in sorted(left.keys() | right.keys(), key=str.encode):
        before, after = left.get(name), right.get(name)
        if before != after:
            kind = "added" if before is None else "removed" if after is None else "changed"
            rows.append((name, kind, before, after))
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_tasks_find_what_differs_between_any_two_versions(repo, seed):
    random_ = random.Random(seed)
    main = repo.branch("main")
    made = [main.head.id]
    for version in range(5):
        count = random_.choice((1, 5, 60, 300))
        paths = [path(random_.randrange(700)) for _ in range(count)]
        if version:
            there = [entry.path for entry in main.entries()]
            main.delete_many(random_.sample(there, random_.randrange(len(there) + 1) // 2))
        made.append(commit(main, paths, version).id)
    for _ in range(12):
        base, ref = random_.sample(made, 2)
        prefix, tasks = random_.choice(PREFIXES), random_.randrange(9)
        rows, opened = by_tasks(repo, base, ref, prefix, tasks)
        assert rows == compared(repo, base, ref, prefix)
        ids = [
            {info.id for info in read(repo.stores.ranges, repo.commit(each).metarange)}
            for each in (base, ref)
        ]
        assert opened <= ids[0] ^ ids[1]


def test_two_versions_one_commit_apart_cost_what_differs(repo):
    main = repo.branch("main")
    before = commit(main, map(path, range(1_500)), 0)
    after = commit(main, [path(10), path(700), path(2_000)], 1)
    tree = read(repo.stores.ranges, after.metarange)
    assert len(tree) > 200
    rows, opened = by_tasks(repo, before.id, after.id)
    assert [row[1] for row in rows] == [
        "added" if name == path(2_000) else "changed" for name, *_ in rows
    ]
    assert len(rows) == 3
    assert len(opened) <= 8


def test_the_driver_reads_only_small_differences(repo):
    main = repo.branch("main")
    empty = main.head
    metadata = {"schema": "x" * 14_000}
    link_unseen(main, (Entry(path(at), "data/x", 1, metadata=metadata) for at in range(5_000)))
    long, short = main.commit("long"), commit(main, [path(9_000)], 1)
    assert len(rows_here(repo, long, short, only_small=True)) == 1
    assert rows_here(repo, empty, long, only_small=True) is None
    rows = rows_here(repo, empty, long, only_small=False)
    assert len(rows) == 5_000
    assert rows.column("after").num_chunks > 1  # more than 2 GiB of text do not fit into one


def rows_here(repo, base, ref, *, only_small):
    request = Request("", repo.name, "diff")
    reader = TreeReader(repo.stores.ranges, request, [base.metarange, ref.metarange])
    return reader.read_here(only_small=only_small)
