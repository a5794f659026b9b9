"""Commits of some of the staged paths: the other paths stay staged, and no write is lost."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.base.globs import matches
from graveler.committed.apply import apply
from graveler.errors import (
    GateFailedError,
    GravelerError,
    InvalidInputError,
    NoChangesError,
)
from graveler.gates import checks
from graveler.publishing.landing import CommitSpec
from graveler.repository.commits import sealing
from graveler.repository.commits.sealing import _seal, commit  # a commit calls it before it dies
from graveler.repository.commits.selective import GivingWay
from tests.harness.worlds import FAULTS, ScriptedWorld, struck_worlds, tree


def put(branch, *paths, text="new"):
    for path in paths:
        branch.put(path, text.encode())


def staged(branch):
    return {change.path: str(change.kind) for change in branch.uncommitted()}


@pytest.fixture
def main(repo):
    main = repo.branch("main")
    put(main, "a/1", "b/1", "c.json", text="old")
    main.commit("first")
    put(main, "a/1", "a/2", "b/2", "c.json")
    main.delete("b/1")
    return main


def test_only_the_chosen_paths_are_committed(repo, main):
    made = main.commit("some", paths=["a/", "*.json"], metadata={"source": "bts"})
    assert made.metadata == {"source": "bts"}
    assert tree(repo.ref("main")) == {"a/1": "new", "a/2": "new", "b/1": "old", "c.json": "new"}
    assert staged(main) == {"b/1": "removed", "b/2": "added"}
    put(main, "a/1", text="newer")
    assert staged(main) == {"a/1": "changed", "b/1": "removed", "b/2": "added"}
    main.commit("rest")
    assert tree(repo.ref("main")) == {"a/1": "newer", "a/2": "new", "b/2": "new", "c.json": "new"}


def choose(main, paths, given, text="newest"):
    """Commit some paths as they are staged, or with given entries for them."""
    if given:
        main.commit_changes([main.store("a/1", text.encode())], message="some")
    else:
        main.commit("some", paths=paths)


@pytest.mark.parametrize("given", [False, True])
def test_a_full_commit_on_its_way_brings_back_no_older_write(repo, main, monkeypatch, given):
    """The commit has sealed the older write. Other tokens lie between it and the newer write."""

    def build(metarange, changes):
        if repo.ref("main").commit == before:
            put(main, "a/1", "d", text="newest")
            choose(main, ["a/"], given)
        return apply(stores.ranges, metarange, changes, stores.splitting)

    stores, before = repo.stores, main.head
    monkeypatch.setattr(GivingWay, "clear", lambda _: None)  # the clean-up is late, or never runs
    _seal(stores, "main", "")
    put(main, "e")
    commit(stores, "main", CommitSpec("all", {}, "ann"), by=build)
    assert main.get("a/1") == repo.ref("main").get("a/1") == b"newest"
    main.commit("rest")
    assert tree(repo.ref("main")) | {"c.json": ""} == {
        "a/1": "newest", "a/2": "new", "b/2": "new", "c.json": "", "d": "newest", "e": "new",
    }  # fmt: skip


@pytest.mark.parametrize("given", [False, True])
def test_a_write_that_gave_way_to_the_head_does_not_come_back(repo, main, given):
    """The full commit has built its tree. The record's tokens and the head have not changed."""

    def build(metarange, changes):
        built = apply(stores.ranges, metarange, changes, stores.splitting)
        if not tried:
            tried.append(built)
            put(main, "a/1", text="old")
            with pytest.raises(NoChangesError):
                choose(main, ["a/1"], given, text="old")
        return built

    stores, tried = repo.stores, []
    commit(stores, "main", CommitSpec("all", {}, "ann"), by=build)
    assert main.get("a/1") == b"old"
    assert tree(repo.ref("main")) == {"a/1": "old", "a/2": "new", "b/2": "new", "c.json": "new"}


def test_what_was_committed_does_not_hide_a_later_merge(repo, main):
    main.commit("some", paths=["a/1"])
    put(repo.create_branch("dev", "main"), "a/1", text="merged")
    repo.branch("dev").commit("on dev")
    repo.merge("dev", into="main")
    assert main.get("a/1") == b"merged"
    main.commit("rest")
    assert repo.ref("main").get("a/1") == b"merged"


def test_commits_that_make_no_sense_are_refused(repo, main):
    before = staged(main)
    with pytest.raises(NoChangesError, match=r"at none/, x\*"):
        main.commit("none", paths=["none/", "x*"])
    for paths, allow_empty in (([], False), (["a/"], True), ([""], False), (["/a"], False)):
        with pytest.raises(InvalidInputError):
            main.commit("none", paths=paths, allow_empty=allow_empty)
    repo.gates.require("main", checks.only_within("a/"))
    with pytest.raises(GateFailedError):
        main.commit("some", paths=["b/"])
    assert staged(main) == before


def test_a_run_commits_some_paths_time_and_again(monkeypatch):
    """The tokens below what stays staged do not become too many."""
    monkeypatch.setattr(sealing, "MOST_SEALED", 4)
    repo = ScriptedWorld().repo(scripted=False)
    with repo.run("hour") as run:
        put(run, "x/1", "y/1")
        for number in range(8):
            put(run, "x/1", text=str(number))
            assert run.commit("some", paths=["x/"]).metadata["graveler.run"] == "hour"
        assert staged(run) == {"y/1": "added"}
        run.commit("rest")
    assert tree(repo.ref("main")) == {"x/1": "7", "y/1": "new"}


PATHS = st.sampled_from([f"{folder}{name}" for folder in ("", "a/", "a/b/", "c/") for name in "pq"])
WRITES = st.lists(st.tuples(PATHS, st.sampled_from(["1", "2", None])), max_size=5)
PATTERNS = st.lists(
    st.sampled_from(["a/", "a/*", "**/p", "c/**", "p", "?", "a/b/q"]), min_size=1, max_size=2
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(WRITES, PATTERNS | st.none()), max_size=6))
def test_commits_of_some_paths_do_what_a_dict_does(steps):
    repo = ScriptedWorld().repo(scripted=False)
    main = repo.branch("main")
    head: dict[str, str] = {}
    left: dict[str, str | None] = {}

    def laid(writes):
        merged = {**head, **writes}
        return {path: text for path, text in merged.items() if text is not None}

    for writes, patterns in steps:
        for path, text in writes:
            left[path] = text
            if text is None:
                main.delete(path)
            else:
                put(main, path, text=text)
        chosen = [
            path
            for path in left
            if patterns is None or any(matches(pattern, path) for pattern in patterns)
        ]
        with suppress(NoChangesError):
            main.commit("c", paths=patterns)
        head = laid({path: left.pop(path) for path in chosen})
        assert tree(repo.ref("main")) == head
        assert tree(main) == laid(left)


def over_a_dead_committer(repo):
    """A committer died after it had sealed; then two paths were written again."""
    main = repo.branch("main")
    put(main, "a/1", "b/1", text="old")
    main.commit("first")
    put(main, "a/1", "a/2", "b/1", "b/2")
    _seal(repo.stores, "main", "")
    put(main, "a/1", "b/2", text="newest")


def commit_some(repo):
    return repo.branch("main").commit("some", paths=["a/"])


def commit_mine(repo):
    return repo.branch("main").commit("some", paths=["a/"], mine=True)


OLD = {"a/1": "old", "b/1": "old"}
SHOWN = {"a/1": "newest", "a/2": "new", "b/1": "new", "b/2": "newest"}
SOME = {**SHOWN, "b/1": "old"}
del SOME["b/2"]


@pytest.mark.parametrize("chosen", [commit_some, commit_mine])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_call_loses_no_staged_write(fault, chosen):
    """Nor does it bring an older write back. A commit that fails is not there."""
    for world, what, error in struck_worlds(fault, over_a_dead_committer, chosen, step=4):
        repo = world.repo(scripted=False)
        main = repo.branch("main")
        landed = {True: [SOME], False: [OLD] if isinstance(error, GravelerError) else [OLD, SOME]}
        assert tree(repo.ref("main")) in landed[error is None], what
        assert tree(main) == SHOWN, what
        with suppress(NoChangesError):
            chosen(repo)
        assert tree(repo.ref("main")) == SOME, what
        put(main, "a/1", text="later")
        assert staged(main) == {"a/1": "changed", "b/1": "changed", "b/2": "added"}, what
        main.commit("rest")
        assert tree(repo.ref("main")) == {**SHOWN, "a/1": "later"}, what


@pytest.mark.parametrize("given", ["a[1].csv", "in[1]/"])
def test_a_path_that_exists_is_no_pattern(repo, given):
    main = repo.branch("main")
    put(main, "a[1].csv", "a1.csv", "in[1]/x", "in1/x")
    main.commit("named", paths=[given])
    assert list(tree(repo.ref("main"))) == [given if given != "in[1]/" else "in[1]/x"]
    put(main, "a1.csv", "in1/x", text="newer")
    with pytest.raises(NoChangesError, match="nothing is staged"):
        main.commit("committed before", paths=[given])
    for path in ("a[1].csv", "in[1]/x"):
        main.delete(path)
    main.commit("deleted", paths=[given])
    assert list(tree(repo.ref("main"))) == []
    main.commit("rest", paths=[given.replace("1", "1-2")])
    assert list(tree(repo.ref("main"))) == ["a1.csv" if given != "in[1]/" else "in1/x"]
    put(main, "in[1]/x", "in1")
    with pytest.raises(NoChangesError, match=r"in\[1\]"):
        main.commit("a folder without its slash", paths=["in[1]"])
