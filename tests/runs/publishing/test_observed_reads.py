"""Every public call that reads files notes what it reads; a new call must be added here."""

import pytest

from graveler.errors import InvalidInputError
from graveler.reads.view import View, observed
from graveler.repository.branch import Branch
from graveler.runs.attempt import ObservedBranch, ObservedRef, Reads


def refused(read):
    """Read what is no table."""
    with pytest.raises(InvalidInputError, match="not a Parquet file"):
        read()


READING = {
    "list": lambda view, _: list(view.list("a/")),
    "entries": lambda view, _: list(view.entries("a/")),
    "has_below": lambda view, _: view.has_below("a/"),
    "stat": lambda view, _: view.stat("a/x"),
    "stat_many": lambda view, _: list(view.stat_many(["a/x"])),
    "exists": lambda view, _: view.exists("a/x"),
    "get": lambda view, _: view.get("a/x"),
    "get of an entry": lambda view, entry: view.get(entry),
    "open": lambda view, _: view.open("a/x").close(),
    "open of an entry": lambda view, entry: view.open(entry).close(),
    "get_many": lambda view, _: list(view.get_many(["a/x"])),
    "get_many of entries": lambda view, entry: list(view.get_many([entry])),
    "download": None,
    "listing": lambda view, _: view.listing("a/").read_all(),
    "read_range": lambda view, _: view.read_range("a/x", 0, 1),
    "read_range of an entry": lambda view, entry: view.read_range(entry, 0, 1),
    "read": lambda view, _: refused(lambda: view.read("a/", "pyarrow")),
    "scan": lambda view, _: refused(lambda: view.scan("a/x", "pyarrow")),
    "table": lambda view, _: view.table("a/").files,
    "uris": lambda view, _: view.uris("a/"),
    "uris of a file": lambda view, _: view.uris("a/x"),
    "uri": lambda view, entry: view.uri(entry),
}
COPYING = {
    "copy": lambda branch, source: branch.copy(source, "a/", "b/"),
    "move": lambda branch, _: branch.move("a/", "b/"),
}
WITHOUT_READING = {
    *("repository", "name", "head", "expression", "commit_id", "uncommitted", "reset"),
    *("put", "put_many", "upload", "store", "link", "link_many", "import_", "new_address", "write"),
    *("delete", "delete_many", "commit", "commit_changes"),
}


@pytest.fixture
def other(repo):
    """A branch with a file that main does not have."""
    branch = repo.create_branch("other")
    branch.put("a/x", b"1")
    branch.commit("a")
    return branch


def views(repo, other):
    """Yield the views that a run reads, each with its recorded inputs."""
    run = repo.runs.open("run", into="other")
    yield run, lambda: run.inputs
    for kind in ("ref", "source"):
        reads = Reads()
        if kind == "ref":
            view: View = observed(ObservedRef, repo.ref("other"), reads.observe)
        else:
            view = observed(ObservedBranch, repo.branch("other"), reads.observe)
        yield view, lambda: reads.all  # noqa: B023


def test_every_public_call_is_known_to_read_or_not():
    public = {name for kind in (View, Branch) for name in dir(kind) if not name.startswith("_")}
    known = {name.partition(" ")[0] for name in READING} | {*COPYING} | WITHOUT_READING
    assert public - known == set()


@pytest.mark.parametrize("call", READING)
def test_a_read_of_a_run_is_noted(repo, other, tmp_path, call):
    (change,) = repo.diff(other.head.parents[0], other.head.id)
    for number, (view, inputs) in enumerate(views(repo, other)):
        read = READING[call] or (lambda view, _: view.download("a/", tmp_path / str(number)))  # noqa: B023
        read(view, change.after)
        assert [(read.commit, read.prefix) for read in inputs()] == [(other.head.id, "a/")]


@pytest.mark.parametrize("call", COPYING)
def test_the_source_of_a_copy_is_noted(repo, other, call):
    run = repo.runs.open("run", into="other")
    COPYING[call](run, "other")
    assert [(read.commit, read.prefix) for read in run.inputs] == [(other.head.id, "a/")]


def test_a_copy_from_another_branch_is_noted(repo, other):
    run = repo.runs.open("run")
    run.copy(other.name, "a/", "b/")
    assert [(read.commit, read.prefix) for read in run.inputs] == [(other.head.id, "a/")]
