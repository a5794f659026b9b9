"""Helpers for tests of failing disks: a prepared lake, operations on it, and its visible state."""

import graveler
from graveler.errors import NoChangesError
from graveler.fsck.check import fsck
from graveler.lake.factory import init
from graveler.model import Entry
from tests.harness.worlds import SMALL, tree

LONG = "x" * 9_000


def prepared(folder, kv_uri="sqlite://kv.sqlite3"):
    """A lake with history, a branch to merge, and staged writes."""
    with init(folder, kv_uri=kv_uri) as lake:
        repo = lake.create_repository("flights", splitting=SMALL)
        main = repo.branch("main")
        for number in range(20):
            main.put(f"p{number:02}", b"0")
        main.commit("base")
        dev = repo.create_branch("dev")
        dev.put("dev", b"1")
        dev.delete("p03")
        dev.commit("dev")
        main.put("p10", b"1")
        main.commit("main")
        main.put("p05", b"1")
        main.delete("p07")
        main.put("new", b"1")
    return folder


def link_many(repo):
    info = repo.stores.objects.put("data/linked", b"1")
    repo.branch("main").link_many(
        Entry(f"l{n}", "data/linked", 1, info.checksum, metadata={"note": LONG}) for n in range(5)
    )


def create_branches(repo):
    for number in range(40):
        repo.create_branch(f"more-{number}", exist_ok=True)


OPERATIONS = {
    "put": lambda repo: repo.branch("main").put("p01", b"put", metadata={"note": LONG}),
    "link-many": link_many,
    "commit": lambda repo: repo.branch("main").commit(f"commit {LONG}"),
    "merge": lambda repo: repo.merge("dev", "main", message=f"merge {LONG}"),
    "create-branches": create_branches,
}


def looks(folder):
    """Check the lake after a new open, and return its visible state."""
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        assert fsck(repo.stores, objects="checksum").sound
        return [
            (record.name, tree(repo.ref(record.name)), tree(repo.branch(record.name)))
            for record in repo.branches(hidden=True)
        ]


def repeated(folder, operate):
    try:
        with graveler.open(folder) as lake:
            operate(lake.repository("flights"))
    except NoChangesError:
        pass  # the first try had landed
    return looks(folder)
