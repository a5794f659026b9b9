"""Staging in a team: who staged a file, and when; what one drops or commits; what expires."""

from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.base.globs import matches
from graveler.errors import (
    CorruptionError,
    ExpiredError,
    GravelerError,
    InvalidInputError,
    NoChangesError,
    RefNotFoundError,
    StagedByOthersError,
)
from graveler.model import Entry
from graveler.repository.positions import delete_branch
from graveler.testing import World
from graveler.testing.world import START
from graveler.values import (
    TOMBSTONE,
    is_replacement,
    signature,
    signed_by,
    stage_entry,
    staged_changes,
    staged_epoch,
    staged_value,
)
from tests.harness.worlds import ScriptedWorld, interleave, outcome_of, tree


@pytest.fixture
def world():
    return World()


@pytest.fixture
def repo(world):
    repo = world.open().create_repository("flights")
    repo.branch("main").put("old", b"0")
    repo.branch("main").commit("first")
    repo.create_branch("dev")
    return repo


@pytest.fixture
def put(repo, monkeypatch):
    """Put files on dev as an author."""

    def done(author, *paths, text="new"):
        monkeypatch.setenv("GRAVELER_COMMITTER", author)
        repo.branch("dev").put_many((path, text.encode()) for path in paths)

    return done


def authors(branch):
    return {change.path: change.author for change in branch.uncommitted()}


def test_a_staged_file_has_an_author_and_a_time(world, repo, put):
    dev = repo.branch("dev")
    put("ann", "a/1", "a/2")
    world.clock.advance(timedelta(hours=1))
    put("bob", "a/2")
    dev.delete("old")
    dev.move("a/1", "b")
    assert authors(dev) == {"a/2": "bob", "b": "bob", "old": "bob"}
    times = {change.at.replace(microsecond=0) for change in dev.uncommitted()}
    assert times == {START + timedelta(hours=1)}
    assert dev.commit("all").committer == "bob"
    assert {entry.path for entry in repo.ref("dev").entries()} == {"a/2", "b"}


def test_a_run_is_the_author_of_its_writes(repo):
    with repo.run("hourly") as run:
        run.put("x", b"1")
        assert authors(run) == {"x": "hourly"}
        run.commit("done")


def test_what_older_versions_staged_has_no_author(repo):
    stores, dev = repo.stores, repo.branch("dev")
    token = stores.refs.branches.get("dev").staging_token
    entry = dev.store("x", b"1")
    stores.staging.set(token, b"x", stage_entry(b"x", entry))
    (change,) = dev.uncommitted()
    assert (change.path, change.author, change.at) == ("x", "", None)
    dev.commit("reads it")
    assert dev.get("x") == b"1"


ENTRY = Entry("a", "data/a", 3, "sha256:00", computed=True)
FORMS = [
    TOMBSTONE,
    stage_entry(b"a", ENTRY),
    stage_entry(b"a", ENTRY, replaces=True),
    stage_entry(b"a", ENTRY, epoch=7),
]


@given(st.sampled_from(FORMS), st.text(max_size=400))
def test_an_author_changes_nothing_that_is_committed(form, author):
    signed = signature(author, START) + form
    assert signed_by(signed) == (author.encode()[:245].decode("utf-8", "replace"), START)
    for read in (staged_value, staged_epoch, is_replacement):
        assert read(signed) == read(form)
    assert list(staged_changes([(b"a", signed)])) == list(staged_changes([(b"a", form)]))
    for raw in (signed[:1], signed[:10], signed[: signed[1]], signed[:1] + b"\1" + signed[2:]):
        with pytest.raises(CorruptionError):
            list(staged_changes([(b"a", raw)]))


def test_others_files_are_dropped_only_if_that_is_said(repo, put):
    dev = repo.branch("dev")
    put("bob", "b/1", "b/2")
    put("ann", "a/1")
    refused: list[dict[str, Any]] = [{}, {"paths": ["**/1"]}, {"to": "main"}]
    for terms in refused:
        with pytest.raises(StagedByOthersError, match=r"also of bob \([12]\): give others=True"):
            dev.reset(**terms)
    assert authors(dev) == {"a/1": "ann", "b/1": "bob", "b/2": "bob"}
    assert dev.reset(paths=["a/"]) == 1
    assert dev.reset(paths=["a/"]) == 0
    assert dev.reset(paths=["b/1"], others=True) == 1
    assert authors(dev) == {"b/2": "bob"}
    assert [line.dropped for line in repo.moves("dev")] == [1, 1, 0]
    with pytest.raises(InvalidInputError, match=r"reset\(paths=\['b/'\]\) drops what is staged"):
        dev.reset("b/")
    wrong: list[dict[str, Any]] = [{"paths": []}, {"paths": ["a"], "to": "main"}, {"others": 1}]
    for terms in wrong:
        with pytest.raises(InvalidInputError):
            dev.reset(**terms)


def test_an_undo_of_a_reset_takes_no_commit_back(repo, put):
    dev = repo.branch("dev")
    put("ann", "x", "y")
    dev.delete("old")
    head = dev.head
    dev.reset()
    put("bob", "y", text="newer")
    assert repo.undo("dev") == head
    assert (dev.get("x"), dev.get("y")) == (b"new", b"newer")
    assert authors(dev) == {"x": "ann", "y": "bob", "old": "ann"}
    assert [line.action for line in repo.moves("dev")] == ["undo", "reset", "create"]


def test_a_deleted_branch_comes_back_with_what_was_staged(repo, put):
    put("ann", "x")
    repo.delete_branch("dev")
    repo.undo("dev")
    assert authors(repo.branch("dev")) == {"x": "ann"}
    repo.branch("dev").commit("x")
    assert repo.ref("dev").get("x") == b"new"


def test_dropped_files_are_kept_for_the_window_of_collection(world, repo, put):
    dev = repo.branch("dev")
    put("ann", "x", "y")
    world.clock.advance(timedelta(days=2))
    dev.reset(paths=["x"])
    repo.gc.mark()
    repo.undo("dev")
    dev.reset()
    world.clock.advance(timedelta(days=8))
    repo.gc.run()
    assert repo.undo("dev") == dev.head
    assert {path: dev.get(path) for path in authors(dev)} == {"x": b"new", "y": b"new"}
    dev.reset()
    repo.gc.run()
    world.clock.advance(timedelta(days=8))
    repo.gc.run()
    with pytest.raises(ExpiredError, match="0 of 2 are left"):
        repo.undo("dev")
    assert authors(dev) == {}


PATHS = ("a/1", "a/2", "b/1")
CHOICES = st.sampled_from([None, ["a/"], ["**/1"], ["b/1", "a/2"]])
WHO = st.sampled_from(["ann", "bob"])
STEPS = st.one_of(
    st.tuples(st.just("put"), WHO, st.sets(st.sampled_from(PATHS), min_size=1)),
    st.tuples(st.just("reset"), WHO, CHOICES),
    st.tuples(st.just("commit"), WHO, CHOICES, st.booleans()),
    st.tuples(st.just("undo"), WHO),
)


class Model:
    """A branch as dicts: what is staged (text, author), and the log (files, what was dropped)."""

    def __init__(self):
        self.staged = {}
        self.log: list[Any] = [({}, {})]
        self.texts = count()

    def chosen(self, paths, author=None):
        return [
            path
            for path, (_, who) in self.staged.items()
            if (paths is None or any(matches(each, path) for each in paths))
            and author in (None, who)
        ]

    def put(self, who, paths):
        text = str(next(self.texts))
        self.staged.update(dict.fromkeys(paths, (text, who)))
        return text

    def reset(self, _, paths):
        dropped = {path: self.staged.pop(path) for path in self.chosen(paths)}
        if dropped:
            self.log.append((self.log[-1][0], dropped))

    def commit(self, who, paths, mine):
        taken = {
            path: self.staged.pop(path)[0] for path in self.chosen(paths, who if mine else None)
        }
        if taken:
            self.log.append((self.log[-1][0] | taken, {}))

    def undo(self, _):
        (files, dropped), before = self.log[-1], self.log[-2:-1]
        back = {path: row for path, row in dropped.items() if path not in self.staged}
        if before and (back or before[0][0] != files):
            self.staged |= back
            self.log.append((before[0][0], {}))


def done(repo, step, text):
    dev = repo.branch("dev")
    match step:
        case ("put", _, paths):
            dev.put_many((path, text.encode()) for path in paths)
        case ("reset", _, paths):
            dev.reset(paths=paths, others=True)
        case ("commit", who, paths, mine):
            with suppress(NoChangesError):
                dev.commit("some", paths=paths, mine=mine, committer=who)
        case _:
            with suppress(RefNotFoundError):
                repo.undo("dev")


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=9))
@example(  # bob's write is sealed beneath ann's
    [
        ("put", "ann", {"b/1"}),
        ("put", "bob", {"a/1"}),
        ("commit", "ann", None, True),
        ("put", "ann", {"a/1"}),
        ("commit", "ann", None, True),
    ]
)
def test_a_team_stages_commits_drops_and_undoes_as_dicts_do(steps):
    repo = World().open().create_repository("flights")
    dev, model = repo.create_branch("dev"), Model()
    with pytest.MonkeyPatch.context() as patch:
        for step in steps:
            patch.setenv("GRAVELER_COMMITTER", step[1])
            done(repo, step, getattr(model, step[0])(*step[1:]))
            assert tree(repo.ref("dev")) == model.log[-1][0]
            assert authors(dev) == {path: who for path, (_, who) in model.staged.items()}
            assert {path: dev.get(path).decode() for path in model.staged} == {
                path: text for path, (text, _) in model.staged.items()
            }
        assert len(list(repo.moves("dev"))) == len(model.log)


def test_a_commit_of_ones_own_leaves_the_others_staged(repo, put):
    dev = repo.branch("dev")
    put("ann", "x", "y")
    put("bob", "y", "z")
    dev.commit("mine", mine=True, committer="ann")
    assert {entry.path for entry in repo.ref("dev").entries()} == {"old", "x"}
    assert authors(dev) == {"y": "bob", "z": "bob"}
    with pytest.raises(NoChangesError, match="nothing is staged at z by ann"):
        dev.commit("none", mine=True, committer="ann", paths=["z"])
    with pytest.raises(InvalidInputError):
        dev.commit("none", mine=True, allow_empty=True)
    assert dev.commit("mine", mine=True).committer == "bob"
    assert authors(dev) == {}


def ending(repo, **terms):
    done = repo.maintain(pack=False, gc=False, **terms)
    done.check()
    return {end.branch: end.reason or end.deleted for end in done.ending}


def test_a_branch_ends_unless_something_keeps_it(world, repo):
    for name in ("plain", "staged", "target", "kept", "moved", "freed"):
        repo.create_branch(name, ttl="14d")
    repo.runs.open("hourly", into="target")
    repo.protection.add("kept", ["delete"])
    world.clock.advance(timedelta(days=10))
    repo.branch("staged").put("x", b"1")
    assert ending(repo) == {}
    world.clock.advance(timedelta(days=1, hours=12))
    assert ending(repo)["plain"] == "ends in 2 days"
    assert repo.expire_branch("moved", timedelta(hours=3)).ends < world.clock.now() + timedelta(
        days=1
    )
    assert repo.expire_branch("freed", None).ends is None
    world.clock.advance(timedelta(hours=1))
    assert ending(repo)["moved"] == "ends in 1 hour"
    world.clock.advance(timedelta(days=2))
    world.clock.advance(timedelta(hours=12))
    expected = {
        "plain": True,
        "moved": True,
        "staged": "files are staged on it",
        "target": "run 'hourly' is to be published to it",
        "kept": "it is protected against delete",
    }
    assert ending(repo, dry_run=True) == expected
    assert ending(repo) == expected
    assert {record.name for record in repo.branches()} >= {"staged", "target", "kept", "freed"}
    assert next(repo.moves("plain")).action == "delete"
    repo.undo("plain")
    assert ending(repo).keys() == {"staged", "target", "kept"}
    with pytest.raises(InvalidInputError, match="default branch"):
        repo.expire_branch("main", "1d")
    with pytest.raises(InvalidInputError):
        repo.create_branch("none", ttl="0d")


def test_what_is_staged_during_the_deletion_comes_back(repo, put):
    assert delete_branch(repo.stores, "dev", unless=lambda _: put("ann", "late") or "") == ""
    repo.undo("dev")
    assert authors(repo.branch("dev")) == {"late": "ann"}


def test_a_branch_whose_end_is_moved_meanwhile_stays(world, repo):
    repo.create_branch("pr", ttl="1h")
    world.clock.advance(timedelta(hours=2))
    tried: list[str] = []

    def kept(record):
        if not tried:
            tried.append(repo.expire_branch("pr", "1d"))
        return "" if record.ends < world.clock.now() else "moved"

    assert delete_branch(repo.stores, "pr", unless=kept) == "moved"
    assert repo.branch("pr").head


BESIDE = {
    "put": lambda repo: repo.branch("main").put("x", b"newer"),
    "delete": lambda repo: repo.branch("main").delete("y"),
    "commit": lambda repo: repo.branch("main").commit("z"),
    "reset": lambda repo: repo.branch("main").reset(),
    "paths": lambda repo: repo.branch("main").reset(paths=["z"]),
    "undo": lambda repo: repo.undo("main"),
    "mark": lambda repo: repo.gc.mark(grace="0s"),
}


def with_a_reset(repo):
    main = repo.branch("main")
    main.put_many([("x", b"1"), ("y", b"1")])
    main.reset(paths=["x", "y"])
    main.put("z", b"1")


@pytest.mark.parametrize("beside", BESIDE)
def test_an_undo_beside_others_is_before_or_after_them(beside):
    orders = []
    for steps in ([repo_undo, BESIDE[beside]], [BESIDE[beside], repo_undo], [BESIDE[beside]]):
        repo = ScriptedWorld().repo(scripted=False)
        with_a_reset(repo)
        results = [outcome_of(step, repo) for step in steps]
        orders.append((tree(repo.branch("main")), isinstance(results[-1], GravelerError)))

    def check(world, outcome, _):
        seen = tree(world.repo(scripted=False).branch("main"))
        assert seen in [files for files, _ in orders], outcome
        if not isinstance(outcome, GravelerError):
            assert seen in [files for files, failed in orders[:2] if not failed]

    interleave(with_a_reset, repo_undo, BESIDE[beside], check, step=3)


def repo_undo(repo):
    repo.undo("main")
