"""Copies and moves of files and folders: atomic, to other paths, without a copy of bytes."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.base.globs import matches
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    NoChangesError,
    ObjectNotFoundError,
    StateError,
)
from graveler.repository.writes import bundles, copies
from tests.harness.worlds import FAULTS, ScriptedWorld, interleave, struck_worlds, tree


@pytest.fixture(params=["one chunk", "many chunks"])
def chunks(request, monkeypatch):
    """Rows are staged under the live token, or above it under a separate token."""
    if request.param == "many chunks":
        monkeypatch.setattr(bundles, "CHUNK", 2)
        monkeypatch.setattr(copies, "CHUNK", 2)


def put(branch, *paths, text=None):
    for path in paths:
        branch.put(path, (text or path).encode())


TABLE = ("a/1", "a/2", "a/b/3", "a0", "c")


@pytest.fixture
def main(repo):
    main = repo.branch("main")
    put(main, *TABLE[:3])
    main.commit("first")
    put(main, *TABLE[3:], text="staged")
    return main


def test_a_folder_is_copied_without_its_bytes(repo, main):
    before = list(repo.stores.objects.list("data/"))
    assert main.copy("main", "a/", "z/") == 3
    assert list(repo.stores.objects.list("data/")) == before
    assert tree(main) == {
        **dict.fromkeys(("a0", "c"), "staged"),
        **{path: path for path in TABLE[:3]},
        **{"z" + path[1:]: path for path in TABLE[:3]},
    }
    main.commit("copied")
    assert tree(repo.ref("main"))["z/b/3"] == "a/b/3"
    moved = [(e.checksum, e.mtime, e.metadata) for e in main.entries("z/")]
    assert main.move("z/", "y/") == 3
    assert [(e.checksum, e.mtime, e.metadata) for e in main.entries("y/")] == moved
    assert not main.has_below("z/")
    put(main, "a", "a/1/deep")  # a path can be a file and a folder
    assert (main.move("a", "x"), main.copy(main, "a/1/", "y/")) == (1, 1)
    assert (main.get("x"), main.get("y/deep")) == (b"a", b"a/1/deep")


def test_a_branch_is_copied_with_what_is_staged_a_ref_without(repo, main):
    assert main.copy("main", "", "committed/") == 3
    assert main.copy(main, "", "all/") == 8
    assert main.get("all/c") == b"staged"
    assert main.copy(main, "c", "d") == 1
    with pytest.raises(ObjectNotFoundError, match="nothing at 'c' in 'main'"):
        main.copy(repo.ref("main"), "c", "d")


def test_a_file_that_replaces_another_one_deletes_nothing(main):
    put(main, "z", "z/1", "z.csv", "zz")
    before = tree(main)
    assert main.copy(main, "a/1", "z", replace=True) == 1
    assert tree(main) == {**before, "z": "a/1"}


@pytest.mark.parametrize(
    ("path", "to", "error", "said"),
    [
        ("a", "b/", InvalidInputError, "two files, or two folders"),
        ("a/", "b//", InvalidInputError, "part that is empty"),
        ("a/", "../", InvalidInputError, "'.' or '..'"),
        ("a/", "a/", InvalidInputError, "two different places"),
        ("none/", "b/", ObjectNotFoundError, "nothing at 'none/' in 'main'"),
        ("a", "b", ObjectNotFoundError, "give 'a/'"),
    ],
)
def test_copies_and_moves_that_make_no_sense_are_refused(main, path, to, error, said):
    before = tree(main)
    for call in (lambda: main.copy(main, path, to), lambda: main.move(path, to)):
        with pytest.raises(error, match=said):
            call()
    assert tree(main) == before


def test_a_pattern_is_of_files_of_a_folder(main):
    with pytest.raises(InvalidInputError, match="give a folder"):
        main.copy(main, "a/1", "b", only="a/*")
    with pytest.raises(ObjectNotFoundError, match=r"nothing at 'a/\*\*/x' in 'main'"):
        main.move("a/", "b/", only="a/**/x")


def test_a_copy_in_a_run_is_an_input_of_it(repo, main):
    dev = repo.create_branch("dev")
    put(dev, "in/1")
    head = dev.commit("input")
    with repo.run("hour") as run:
        run.copy("dev", "in/", "out/")
        run.commit("copied")
    assert [(read.commit, read.prefix) for read in repo.runs.get("hour").inputs] == [
        (head.id, "in/")
    ]


PATHS = [f"{folder}{name}" for folder in ("", "a/", "a/b/", "a/b/a/", "c/") for name in "pq"]
FOLDERS = st.sampled_from(["", "a/", "a/b/", "a/b/a/", "c/"])
TREES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from("123"), max_size=10)


def lay(main, committed, staged):
    for path, text in committed.items():
        put(main, path, text=text)
    main.commit("c", allow_empty=True)
    for path, text in staged.items():
        if text == "3":
            main.delete(path)
        else:
            put(main, path, text=text)


@settings(max_examples=40, deadline=None)
@given(
    TREES,
    TREES,
    FOLDERS,
    FOLDERS,
    st.sampled_from(["copy", "mirror", "move"]),
    st.sampled_from(["", "**/p", "a/*", "**/b/**", "[ac]/"]),
    st.booleans(),
)
def test_copies_and_moves_do_what_a_dict_does(committed, staged, source, to, action, only, small):
    main = ScriptedWorld().repo(scripted=False).branch("main")
    lay(main, committed, staged)
    before = tree(main)
    taken = {
        path for path in before if path.startswith(source) and (not only or matches(only, path))
    }
    moved = {to + path[len(source) :]: before[path] for path in taken}
    expected = dict(before)
    if action == "move":
        expected = {path: text for path, text in before.items() if path not in taken}
    elif action == "mirror":
        expected = {path: text for path, text in before.items() if not path.startswith(to)}
    expected |= moved
    if source == to or not moved:
        expected = before
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(bundles, "CHUNK", 3)
            patch.setattr(copies, "CHUNK", 2)
        try:
            if action == "move":
                main.move(source, to, only=only)
            else:
                main.copy(main, source, to, replace=action == "mirror", only=only)
        except (InvalidInputError, ObjectNotFoundError):
            assert expected == before
    assert tree(main) == expected
    with suppress(NoChangesError):
        main.commit("after")
    assert tree(main) == expected


def prepared(repo):
    main = repo.branch("main")
    put(main, "a/1", "a/2", "b/old")
    main.commit("first")
    put(main, "a/2", "a/3", text="staged")


BEFORE = {"a/1": "a/1", "a/2": "staged", "a/3": "staged", "b/old": "b/old"}
COPIED = {**BEFORE, "b/1": "a/1", "b/2": "staged", "b/3": "staged"}
MIRRORED = {path: text for path, text in COPIED.items() if path != "b/old"}
MOVED = {path: text for path, text in COPIED.items() if not path.startswith("a/")}
OPERATIONS = {
    "copy": (lambda repo: repo.branch("main").copy(repo.branch("main"), "a/", "b/"), COPIED),
    "mirror": (
        lambda repo: repo.branch("main").copy(repo.branch("main"), "a/", "b/", replace=True),
        MIRRORED,
    ),
    "move": (lambda repo: repo.branch("main").move("a/", "b/"), MOVED),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.usefixtures("chunks")
def test_a_fault_at_any_call_leaves_all_or_nothing(fault, operation):
    work, after = OPERATIONS[operation]
    for world, what, error in struck_worlds(fault, prepared, work):
        repo = world.repo(scripted=False)
        shown = tree(repo.branch("main"))
        assert shown in ([after] if error is None else [BEFORE, after]), what
        if shown == BEFORE or operation != "move":
            work(repo)
        assert tree(repo.branch("main")) == after, what
        repo.branch("main").commit("all")
        assert tree(repo.ref("main")) == after, what


def write_and_commit(repo):
    put(repo.branch("main"), "a/2", text="later")
    repo.branch("main").commit("beside")


def commit_other(repo):
    main = repo.branch("main")
    main.commit_changes([main.store("a/2", b"given")], message="given")


def commit_as_it_was(repo):
    """The head already has this content, so only the staged write gives way."""
    main = repo.branch("main")
    with suppress(NoChangesError):
        main.commit_changes([main.store("a/2", b"a/2")], message="as it was")


@pytest.mark.parametrize("chunks", ["many chunks"], indirect=True)
@pytest.mark.parametrize("beside", [write_and_commit, commit_other, commit_as_it_was])
@pytest.mark.usefixtures("chunks")
def test_a_move_beside_other_operations(beside):
    """The result is that of one order. A write that is repeated is at both places."""
    orders = []
    for steps in ((OPERATIONS["move"][0], beside), (beside, OPERATIONS["move"][0])):
        repo = ScriptedWorld().repo(scripted=False)
        prepared(repo)
        for step in steps:
            step(repo)
        orders.append(tree(repo.branch("main")))
    if orders[0] != orders[1]:
        orders.append({**orders[1], "a/2": "later"})

    def check(world, moved, done):
        assert not isinstance(moved, GravelerError), repr(moved)
        assert not isinstance(done, GravelerError), repr(done)
        repo = world.repo(scripted=False)
        assert tree(repo.branch("main")) in orders
        with suppress(NoChangesError):
            repo.branch("main").commit("rest")
        assert tree(repo.ref("main")) in orders

    interleave(prepared, OPERATIONS["move"][0], beside, check)
    interleave(prepared, beside, OPERATIONS["move"][0], lambda world, b, m: check(world, m, b))


@pytest.mark.parametrize(("puts", "most"), [(0, 8), (1, 4)])
def test_one_copy_more_than_fit_between_commits_says_what_to_do(monkeypatch, puts, most):
    monkeypatch.setattr(bundles, "_MOST_SEALED", 9)
    repo = ScriptedWorld().repo(scripted=False)
    main = repo.branch("main")
    put(main, "a/1", "a/2")
    main.commit("first")
    for number in range(most):
        put(main, *[f"put/{number}"] * puts)
        main.copy("main", "a/", f"copy-{number}/")
    put(main, *["put/last"] * puts)
    before = tree(main)
    with pytest.raises(StateError, match="commit or discard what is staged"):
        main.copy("main", "a/", "more/")
    assert tree(main) == before
    main.commit("all")
    assert tree(repo.ref("main")) == before
    main.copy("main", "a/", "more/")
