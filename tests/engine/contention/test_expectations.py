"""Commits that expect entries: of two committers that read the same entry, one lands."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import (
    InvalidInputError,
    NoChangesError,
    PreconditionFailedError,
)
from tests.harness.worlds import FAULTS, ScriptedWorld, interleave, struck_worlds, tree

PATHS = ("p", "f/1", "f/2")


def look(view, path):
    return next(iter(view.stat_many([path])))


def swap(branch, path, text, expected, **more):
    entries = [branch.store(path, text.encode())]
    return branch.commit_changes(entries, expected=expected, message=text, **more)


def start(repo):
    main = repo.branch("main")
    main.put("p", b"0")
    main.commit("base")
    main.put("theirs", b"staged")


def count_up(repo, name="new"):
    """Write `name` and one more to the number at p, as a client that has read the branch."""
    main, head = repo.branch("main"), repo.ref("main")
    entries = [
        main.store("p", str(int(head.get("p")) + 1).encode()),
        main.store(name, name.encode()),
    ]
    return main.commit_changes(entries, expected={"p": head.stat("p")}, message=name)


def test_what_has_moved_is_named_and_nothing_changes(repo):
    start(repo)
    main = repo.branch("main")
    read = main.stat("p")
    swap(main, "p", "1", {"p": read})
    head = main.head
    with pytest.raises(
        PreconditionFailedError, match=r"'p' has changed: expected data/.*committed"
    ):
        swap(main, "p", "2", {"p": read})
    assert main.head == head
    assert tree(main) == {"p": "1", "theirs": "staged"}


@pytest.mark.parametrize(
    ("write", "expected", "message"),
    [
        (lambda main: main.put("p", b"2"), "p", "staged, not committed"),
        (lambda main: main.delete("p"), "p", "found no file"),
        (lambda main: main.put("q", b"2"), "q", "expected no file"),
        (lambda main: main.put("f/1", b"2"), "f/", "'f/' is not empty: 'f/1'"),
    ],
)
def test_a_staged_write_counts_and_stays_staged(repo, write, expected, message):
    start(repo)
    main = repo.branch("main")
    read = look(main, expected) if expected != "f/" else None
    write(main)
    before = [str(change) for change in main.uncommitted()]
    with pytest.raises(PreconditionFailedError, match=message):
        swap(main, "other", "1", {expected: read})
    assert [str(change) for change in main.uncommitted()] == before
    main.reset()
    swap(main, "other", "1", {expected: read})


def test_equal_content_is_no_change(repo):
    start(repo)
    main = repo.branch("main")
    read = main.stat("p")
    swap(main, "p", "1", {"p": read})
    swap(main, "p", "0", {})
    swap(main, "other", "1", {"p": read, "f/": None})


def test_a_folder_may_have_what_the_commit_deletes(repo):
    main = repo.branch("main")
    for path in ("f/1", "f/2", "f2"):
        main.put(path, b"0")
    main.commit("base")
    with pytest.raises(PreconditionFailedError, match="'f/2' is there"):
        main.commit_changes(deleted=["f/1"], expected={"f/": None}, message="one")
    main.commit_changes(deleted=["f/1", "f/2"], expected={"f/": None}, message="both")
    assert tree(main) == {"f2": "0"}


@pytest.mark.parametrize("wrong", [["p"], {"p": "entry"}, {"/p": None}, {"": None}])
def test_an_expectation_that_makes_no_sense_is_refused(repo, wrong):
    with pytest.raises(InvalidInputError, match=r"expected|path of 0 bytes"):
        repo.branch("main").commit_changes(deleted=["p"], expected=wrong, message="m")


def test_a_folder_has_no_entry(repo):
    start(repo)
    main = repo.branch("main")
    with pytest.raises(InvalidInputError, match="for a folder give None"):
        swap(main, "q", "1", {"f/": main.stat("p")})


def test_of_two_committers_at_any_point_one_lands():
    def check(world, *outcomes):
        main = world.repo(scripted=False).branch("main")
        pairs = list(zip(("mine", "other"), outcomes, strict=True))
        lost = [each for _, each in pairs if isinstance(each, PreconditionFailedError)]
        landed = {name: name for name, each in pairs if each not in lost}
        assert landed, outcomes
        assert tree(main) == {"p": str(len(landed)), "theirs": "staged", **landed}

    def mine(repo):
        return count_up(repo, "mine")

    def theirs(repo):
        return count_up(repo, "other")

    interleave(start, mine, theirs, check)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_call_leaves_the_old_or_the_new_number(fault):
    for world, what, failed in struck_worlds(fault, start, count_up):
        repo = world.repo()
        seen = tree(repo.branch("main"))
        old, new = {"p": "0", "theirs": "staged"}, {"p": "1", "new": "new", "theirs": "staged"}
        assert seen in (old, new), what
        assert failed is not None or seen == new, what
        assert int(tree(count_up(repo, "again") and repo.ref("main"))["p"]) == len(seen) - 1, what


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("look", "swap", "stage", "commit", "reset")),
        st.integers(0, 1),
        st.sampled_from(PATHS),
        st.sampled_from(("x", "y")),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_two_committers_do_what_a_dict_does(steps):
    """Each committer remembers what it read, and expects it."""
    world = ScriptedWorld()
    branches = [world.repo(scripted=False).branch("main") for _ in range(2)]
    head: dict[str, str] = {}
    staged: dict[str, str] = {}
    known: list[dict[str, tuple[Any, Any]]] = [{}, {}]
    for step, who, path, text in steps:
        branch = branches[who]
        if step == "look":
            known[who][path] = (look(branch, path), {**head, **staged}.get(path))
        elif step == "stage":
            branch.put(path, text.encode())
            staged[path] = text
        elif step == "commit":
            with suppress(NoChangesError):
                branch.commit("all")
            head, staged = {**head, **staged}, {}
        elif step == "reset":
            branch.reset()
            staged = {}
        else:
            entries = {place: entry for place, (entry, _) in known[who].items()}
            holds = all(
                head.get(place) == seen == staged.get(place, seen)
                for place, (_, seen) in known[who].items()
            )
            try:
                swap(branch, path, text, entries)
            except PreconditionFailedError:
                assert not holds
            except NoChangesError:
                assert holds
                assert head[path] == text
                staged.pop(path, None)
            else:
                assert holds
                head[path] = text
                staged.pop(path, None)
        assert tree(branches[0]) == {**head, **staged}
