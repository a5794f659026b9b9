"""Sums of folders and their last changes are those that reading every file would give."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graveler.model import Entry
from graveler.reads import totals
from graveler.reads.changes import last_changes
from graveler.reads.schemas import ROWS
from graveler.reads.totals import Totals, folder_totals
from graveler.testing import World
from graveler.testing.world import link_unseen
from tests.harness.lakes import SMALL

PLACES = ["a/", "a/b/", "a/b0", "a0", "b/", "c"]
trees = st.dictionaries(
    st.builds("{}{:03}".format, st.sampled_from(PLACES), st.integers(0, 40)),
    st.tuples(st.integers(0, 9), st.none() | st.integers(0, 5)),
    max_size=80,
)


def entry(path, size, rows):
    pairs = {"by": "x"} if rows is None else {ROWS: str(rows)}
    return Entry(path, f"data/{path}{size}{rows}", size, "sha256:00", metadata=pairs)


def committed(repo, tree):
    main = repo.branch("main")
    main.delete_many([each.path for each in main.entries() if each.path not in tree])
    link_unseen(main, [entry(path, *each) for path, each in tree.items()])
    return main.commit("a tree", allow_empty=True)


def folders_of(*trees):
    paths = [path for tree in trees for path in tree]
    return sorted({path[: at + 1] for path in paths for at, x in enumerate(path) if x == "/"})


def naive(tree, folder):
    below = [each for path, each in tree.items() if path.startswith(folder)]
    rows = [rows for _, rows in below]
    return len(below), sum(size for size, _ in below), None if None in rows else sum(rows)


@pytest.fixture
def repo():
    with World().open() as lake:
        yield lake.create_repository("flights", splitting=SMALL)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees, st.integers(0, 3))
def test_sums_are_those_of_all_files_below(repo, tree, most):
    totals._kept.clear()
    commit = committed(repo, tree)
    folders = ["", *folders_of(tree), "nothing/"]
    for _ in range(3):
        found = list(folder_totals(repo.stores, commit, folders, most=most))
        for folder, each in zip(folders, found, strict=True):
            files, size, rows = naive(tree, folder)
            assert each in {Totals(files, size, rows), Totals(files, None, None)}
    everything = list(folder_totals(repo.stores, commit, folders, most=1_000))
    assert everything == [Totals(*naive(tree, folder)) for folder in folders]


def child(path, folder):
    """Return the file or folder in a folder on the way to a path, or ""."""
    name, slash, _ = path.removeprefix(folder).partition("/")
    return f"{folder}{name}{slash}" if path.startswith(folder) else ""


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(trees, min_size=1, max_size=4), st.sampled_from(["", "a/"]))
def test_last_changes_are_those_of_the_files_below(repo, history, folder):
    expected: dict[bytes, str] = {}
    old: dict[str, Any] = {}
    head = committed(repo, {})
    for tree in history:
        head = committed(repo, tree)
        changed = (path for path in {*tree, *old} if tree.get(path) != old.get(path))
        expected |= {child(path, folder).encode(): head.id for path in changed}
        old = tree
    keys = sorted({child(path, folder).encode() for path in old} - {b""})
    found = last_changes(repo.stores, head, keys, folders=True)
    assert {key: commit.id for key, commit in found.items()} == {k: expected[k] for k in keys}
    assert last_changes(repo.stores, head, keys, folders=True, looks=0) == {}
