"""Commits of some of the staged paths: the other paths stay staged, and no write is lost."""

from contextlib import suppress
from dataclasses import replace

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
    ProtectedBranchError,
)
from graveler.gates import checks
from graveler.publishing.landing import CommitSpec
from graveler.repository.commits.sealing import _seal, commit  # a commit calls it before it dies
from graveler.repository.commits.selective import GivingWay
from tests.harness.counting import counted_repo
from tests.harness.worlds import FAULTS, ScriptedWorld, interleave, struck_worlds, tree


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


def test_what_was_committed_does_not_hide_a_later_merge(repo, main):
    main.commit("some", paths=["a/1"])
    dev = repo.create_branch("dev", "main")
    put(dev, "a/1", text="merged")
    dev.commit("on dev")
    repo.merge("dev", into="main")
    assert main.get("a/1") == b"merged"
    main.commit("rest")
    assert repo.ref("main").get("a/1") == b"merged"


def test_a_commit_of_all_paths_is_like_any_other(repo, main):
    main.commit("all", paths=["**"])
    record = repo.stores.refs.branches.get("main")
    assert record.sealed_tokens == ()
    assert staged(main) == {}
    with pytest.raises(NoChangesError):
        main.commit("none")


@pytest.mark.parametrize("given", [False, True])
def test_a_full_commit_on_its_way_brings_back_no_older_write(repo, main, monkeypatch, given):
    """The commit has sealed the older write. Other tokens lie between it and the newer write."""

    def choose():
        if given:
            main.commit_changes([main.store("a/1", b"newest")], message="some")
        else:
            main.commit("some", paths=["a/"])

    def build(metarange, changes):
        if repo.ref("main").commit == before:
            put(main, "a/1", "d", text="newest")
            choose()
        return apply(stores.ranges, metarange, changes, stores.splitting)

    stores, before = repo.stores, main.head
    monkeypatch.setattr(GivingWay, "clear", lambda _: None)  # the clean-up is late, or never runs
    _seal(stores, "main", "")
    put(main, "e")
    commit(stores, "main", CommitSpec("all", {}, "ann"), by=build)
    assert main.get("a/1") == repo.ref("main").get("a/1") == b"newest"
    assert main.get("d") == b"newest"
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
                if given:
                    main.commit_changes([main.store("a/1", b"old")], message="as it is")
                else:
                    main.commit("as it is", paths=["a/1"])
            assert main.get("a/1") == b"old"
        return built

    stores, tried = repo.stores, []
    commit(stores, "main", CommitSpec("all", {}, "ann"), by=build)
    assert main.get("a/1") == b"old"
    assert tree(repo.ref("main")) == {"a/1": "old", "a/2": "new", "b/2": "new", "c.json": "new"}


def test_a_listing_shows_no_write_that_has_given_way(repo, main, monkeypatch):
    """The listing reads the older write, then the newer one. The record and the head are the same."""

    def page(self, partition, start, limit):
        if start > b"b/2" and not committed:
            committed.append(start)
            with pytest.raises(NoChangesError):
                main.commit("as it is", paths=["c.json"])
        return read(self, partition, start, limit)

    kv, committed = type(repo.stores.staging._kv), list[bytes]()
    _seal(repo.stores, "main", "")
    put(main, *(f"b/3/{number}" for number in range(100)))
    put(main, "c.json", text="old")
    _seal(repo.stores, "main", "")
    read = kv._page
    monkeypatch.setattr(kv, "_page", page)
    assert tree(main)["c.json"] == "old"
    assert committed


def test_voids_stay_while_the_record_names_them(repo, main):
    """The reply to the write that named the voids is lost. The next try removes their token."""
    stores, keys = repo.stores, [b"a/1"]
    _seal(stores, "main", "")
    older = GivingWay(stores, "main", lambda tokens: stores.staging.get_many(tokens, keys).items())
    record, predicate = stores.refs.branches.get_for_update("main")
    named = older.beneath_voids(record, record.sealed_tokens)
    stores.refs.branches.replace(named, predicate)
    older.beneath_voids(named, ())
    assert main.get("a/1") == b"old"


def test_commits_that_make_no_sense_are_refused(repo, main):
    before = staged(main)
    with pytest.raises(NoChangesError, match=r"at none/, x\*"):
        main.commit("none", paths=["none/", "x*"])
    for paths, allow_empty in (([], False), (["a/"], True), ([""], False), (["/a"], False)):
        with pytest.raises(InvalidInputError):
            main.commit("none", paths=paths, allow_empty=allow_empty)
    repo.protection.add("main", ["commit"])
    with pytest.raises(ProtectedBranchError):
        main.commit("some", paths=["a/"])
    assert staged(main) == before


def test_a_required_gate_judges_the_commit_of_some_paths(repo, main):
    repo.gates.require("main", checks.only_within("a/"))
    with pytest.raises(GateFailedError):
        main.commit("some", paths=["b/"])
    assert len(staged(main)) == 5
    main.commit("some", paths=["a/"])
    assert staged(main).keys() == {"b/1", "b/2", "c.json"}


def test_a_run_commits_some_paths(repo, main):
    with repo.run("hour") as run:
        put(run, "x/1", "y/1")
        made = run.commit("some", paths=["x/"])
        assert made.metadata["graveler.run"] == "hour"
        assert staged(run) == {"y/1": "added"}
        run.commit("rest")
    assert tree(repo.ref("main")).keys() >= {"x/1", "y/1"}


PATHS = st.sampled_from([f"{folder}{name}" for folder in ("", "a/", "a/b/", "c/") for name in "pq"])
WRITES = st.lists(st.tuples(PATHS, st.sampled_from(["1", "2", None])), max_size=5)
PATTERNS = st.lists(
    st.sampled_from(["a/", "a/*", "**/p", "c/**", "p", "?", "a/b/q"]), min_size=1, max_size=2
)


@settings(max_examples=60, deadline=None)
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


def prepare(repo):
    main = repo.branch("main")
    put(main, "a/1", "b/1", text="old")
    main.commit("first")
    put(main, "a/1", "a/2", "b/1", "b/2")


def commit_some(repo):
    return repo.branch("main").commit("some", paths=["a/"])


ALL = dict.fromkeys(("a/1", "a/2", "b/1", "b/2"), "new")
OLD = {"a/1": "old", "b/1": "old"}
SOME = {**OLD, "a/1": "new", "a/2": "new"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_call_loses_no_staged_write(fault):
    for world, what, error in struck_worlds(fault, prepare, commit_some):
        repo = world.repo(scripted=False)
        main = repo.branch("main")
        assert tree(repo.ref("main")) in ([SOME] if error is None else [OLD, SOME]), what
        assert tree(main) == ALL, what
        with suppress(NoChangesError):
            commit_some(repo)
        assert tree(repo.ref("main")) == SOME, what
        put(main, "a/1", text="later")
        assert staged(main) == {"a/1": "changed", "b/1": "changed", "b/2": "added"}, what
        main.commit("rest")
        assert tree(repo.ref("main")) == {**ALL, "a/1": "later"}, what


def over_a_dead_committer(repo):
    """`prepare`; then a committer died after it had sealed, and two paths were written again."""
    prepare(repo)
    _seal(repo.stores, "main", "")
    put(repo.branch("main"), "a/1", "b/2", text="newest")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_call_brings_no_older_write_back(fault):
    shown = {**ALL, "a/1": "newest", "b/2": "newest"}
    for world, what, error in struck_worlds(fault, over_a_dead_committer, commit_some, step=1):
        repo = world.repo(scripted=False)
        main = repo.branch("main")
        assert tree(main) == shown, what
        if error is None or not isinstance(error, GravelerError):
            continue
        assert tree(repo.ref("main")) == OLD, f"{what}: it failed, and the commit is there"


def overwrite(repo):
    put(repo.branch("main"), "a/1", "b/1", text="later")


def commit_all(repo):
    return repo.branch("main").commit("all")


def commit_others(repo):
    return repo.branch("main").commit("others", paths=["b/"])


@pytest.mark.parametrize("beside", [overwrite, commit_all, commit_others])
def test_no_write_is_lost_beside_others(beside):
    after = {**ALL, "a/1": "later", "b/1": "later"} if beside is overwrite else ALL

    def check(world, some, done):
        assert isinstance(some, NoChangesError) or not isinstance(some, GravelerError), repr(some)
        assert not isinstance(done, GravelerError), repr(done)
        repo = world.repo(scripted=False)
        assert tree(repo.branch("main")) == after
        if beside is commit_all and not isinstance(done, GravelerError):
            assert tree(repo.ref(done.id)) == ALL
        with suppress(NoChangesError):
            repo.branch("main").commit("rest")
        assert tree(repo.ref("main")) == after

    interleave(prepare, commit_some, beside, check)
    interleave(prepare, beside, commit_some, lambda world, done, some: check(world, some, done))


def test_a_newer_write_is_kept_beside_a_commit_of_all():
    def prepare(repo):
        main = repo.branch("main")
        put(main, "a/1", text="older")
        _seal(repo.stores, "main", "")
        put(main, "b/1", text="older")

    def commit_newer(repo):
        main = repo.branch("main")
        put(main, "a/1", text="newer")
        main.commit("some", paths=["a/"])

    def newer(world, _, __):
        repo = world.repo(scripted=False)
        assert tree(repo.branch("main"))["a/1"] == "newer"

    interleave(prepare, lambda repo: repo.branch("main").commit("all"), commit_newer, newer)


def test_commits_of_paths_beside_what_stays_staged_go_on():
    main = ScriptedWorld().repo().branch("main")
    put(main, "a/1", "b/1", text="first")
    for number in range(100):
        put(main, "a/1", text=str(number))
        main.commit("some", paths=["a/"])
    assert staged(main) == {"b/1": "added"}


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


def test_a_folder_named_without_its_slash_is_no_pattern(repo):
    main = repo.branch("main")
    put(main, "in[1]/x", "in1")
    with pytest.raises(NoChangesError, match=r"in\[1\]"):
        main.commit("folder", paths=["in[1]"])
    assert staged(main) == {"in1": "added", "in[1]/x": "added"}


def test_chosen_writes_are_removed_in_batches():
    repo, kv = counted_repo()
    main = repo.branch("main")
    main.put("other", b"1")
    entry = main.stat("other")
    main.link_many(replace(entry, path=f"a/{number:05}") for number in range(3_000))
    kv.reset()
    main.commit("some", paths=["a/"])
    assert len(kv.calls) < 60
    assert staged(main) == {"other": "added"}
    assert repo.stores.refs.branches.get("main").sealed_tokens != ()
