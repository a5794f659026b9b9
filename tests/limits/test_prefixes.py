"""Every call refuses a prefix with which no path can begin, as its answer would be empty."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import graveler.spark as gs
from graveler.errors import InvalidInputError
from graveler.spark.metadata.options import Request
from graveler.spark.tables import Tables
from graveler.testing import World

SPARK: Any = None
CALLS: dict[str, Any] = {
    "list": lambda repo, prefix: list(repo.ref("main").list(prefix)),
    "entries": lambda repo, prefix: list(repo.branch("main").entries(prefix)),
    "listing": lambda repo, prefix: repo.ref("main").listing(prefix),
    "has_below": lambda repo, prefix: repo.ref("main").has_below(prefix),
    "has_below, staged": lambda repo, prefix: repo.branch("main").has_below(prefix),
    "uris": lambda repo, prefix: repo.ref("main").uris(prefix),
    "diff": lambda repo, prefix: list(repo.diff("main", "main", prefix=prefix)),
    "log": lambda repo, prefix: list(repo.log(prefix=prefix)),
    "log of a path": lambda repo, path: list(repo.log(path=path)),
    "download": lambda repo, prefix: repo.ref("main").download(prefix, "never-made"),
    "upload": lambda repo, prefix: repo.branch("main").upload("never-made", prefix),
    "import": lambda repo, prefix: repo.branch("main").import_("never-made", prefix),
    "copy": lambda repo, prefix: repo.branch("main").copy("main", prefix, "to/"),
    "move": lambda repo, prefix: repo.branch("main").move(prefix, "to/"),
    "changes": lambda repo, prefix: Tables(repo, SPARK).changes("main", prefix=prefix),
    "entries on Spark": lambda repo, prefix: Tables(repo, SPARK).entries("main", prefix),
    "ranges on Spark": lambda repo, prefix: Tables(repo, SPARK).ranges("main", prefix),
    "diff on Spark": lambda repo, prefix: Tables(repo, SPARK).diff("main", "main", prefix),
    "export": lambda repo, prefix: gs.export(repo, "main", "to", prefix=prefix),
    "data source": lambda repo, prefix: Request.of(
        {"lake": "lake", "repository": "tables", "kind": "changes", "prefix": str(prefix)}
    ),
}


@pytest.fixture(scope="module")
def made():
    with World().open() as lake:
        yield lake.create_repository("tables")


@pytest.fixture
def repo(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield made
    assert not Path("never-made").exists()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("prefix", "plain"), [("/x", "x"), ("x//", "x/"), ("./x/", "x/"), ("a/../b", "a/b"), ("/", "")]
)
def test_a_prefix_of_no_path_is_refused(repo, call, prefix, plain):
    with pytest.raises(InvalidInputError, match=f"give '{plain}': no path has a part"):
        CALLS[call](repo, prefix)


def test_an_absolute_path_object_is_refused(repo):
    with pytest.raises(InvalidInputError, match="give 'x/'"):
        list(repo.ref("main").list(PurePosixPath("/x")))


@pytest.mark.parametrize("prefix", ["", ".", "..", ".hid", "x/.", "..a/", "x/..b/", "a*b", "~"])
def test_odd_beginnings_of_paths_are_prefixes(repo, prefix):
    main = repo.branch("main")
    path = f"{prefix}rest"
    main.put(path, b"1")
    assert [entry.path for entry in main.entries(prefix)] == [path]


@pytest.mark.parametrize("view", ["view", "ref", "branch"])
def test_a_path_with_a_slash_at_its_end_is_a_folder(repo, view):
    main = repo.branch("main")
    main.put(f"{view}/file", b"1")
    main.commit("a file")
    tree = getattr(repo, view)("main")
    said = {path: (tree.exists(path), path in tree) for path in (f"{view}/", view, f"{view}/file/")}
    assert [*said.values()] == [(True, True), (False, False), (False, False)]
