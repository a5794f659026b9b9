"""External problems: deleted branches, odd keys, stale and foreign handles, an unreachable lake."""

import pickle
from dataclasses import replace

import pytest

import graveler
from graveler.errors import (
    FencedError,
    InvalidInputError,
    RunNotFoundError,
)
from graveler.refs.mover import remove
from graveler.runs.record import RunHandle
from graveler.runs.state import RunState

KEY = "hourly 05"


def delete(repo, name):
    """Delete a run's branch, which no public call does."""
    remove(repo.stores.refs, name, lambda _: True)


def work(run, name):
    with run.step(name) as step:
        step.put(name, name.encode())


OPEN = {
    "open": lambda repo, owner: repo.runs.open(KEY),
    "attach": lambda repo, owner: repo.runs.open_or_attach(KEY, owner=owner),
}


@pytest.mark.parametrize("how", OPEN)
def test_a_deleted_run_branch_fails_its_tasks_not_the_next_run(repo, tree, how):
    run = OPEN[how](repo, "first")
    work(run, "one")
    step = run.step("two").__enter__()
    run.put("staged", b"1")
    before = repo.commit("main")
    delete(repo, run.branch)
    for use in (
        lambda: run.put("x", b"1"),
        lambda: run.commit("x"),
        lambda: run.step("three"),
        step.join,
        run.publish,
        lambda: run.judge([]),
        lambda: repo.runs.attach(run.handle.to_json()).put("x", b"1"),
    ):
        with pytest.raises(FencedError):
            use()
    if how == "attach":
        with pytest.raises(FencedError, match="deleted"):
            OPEN[how](repo, "first")
    assert repo.commit("main") == before
    assert run.state is RunState.OPEN
    again = OPEN[how](repo, "second")
    assert again.record.resumed
    assert tree(again) == {"settled": "0", "one": "one"}
    work(again, "two")
    again.publish()
    assert tree(repo.ref("main")) == {"settled": "0", "one": "one", "two": "two"}


@pytest.mark.parametrize("end", ["close", "park", "reap", "abandon", "nothing"])
def test_an_attempt_whose_branch_was_deleted_ends_like_any_other(repo, tree, end):
    run = repo.runs.open(KEY)
    work(run, "one")
    delete(repo, run.branch)
    if end == "reap":
        repo.stores.clock.sleep(3600)
        assert [reaped.to_state for reaped in repo.runs.reap(dry_run=False)] == [RunState.PARKED]
    elif end != "nothing":
        getattr(run, end)("its branch is gone")
    again = repo.runs.open(KEY)
    assert ("one" in tree(again)) == (end != "abandon")


def test_ended_work_does_not_come_back_with_a_deleted_branch(repo, tree):
    for end in ("abandon", "publish"):
        run = repo.runs.open(KEY)
        work(run, end)
        getattr(run, end)()
        head = repo.commit("main").id
        run = repo.runs.open(KEY)
        delete(repo, run.branch)
        again = repo.runs.open(KEY)
        assert again.head.id == head
        again.abandon()


KEYS = {
    "unicode": "stündlich/été/時間",
    "emoji": "✈️ 🛬 05:00",
    "slashes": "../../etc/passwd",
    "controls": "a\nb\tc\x00d\x1b[31m",
    "ref syntax": "main~1^2@{3}:x",
    "dots": "....",
    "two kilobytes": "k" * 2048,
    "two kilobytes of emoji": "🛬" * 512,
    "spaces within": "  a  b  ",
    "quotes": "'; DROP TABLE kv; -- \"",
    "like a branch": "run-x-12345678",
}


@pytest.mark.parametrize("name", KEYS)
def test_a_run_may_be_called_anything(repo, name):
    key = KEYS[name]
    with pytest.raises(RuntimeError), repo.run(key) as run:
        work(run, name)
        raise RuntimeError(key)
    assert repo.runs.get(key).state is RunState.PARKED
    run = repo.runs.open(key)
    again = repo.runs.attach(RunHandle.from_json(run.handle.to_json()))
    assert again.key == key
    work(again, f"{name}/{key[:50]}".replace("\0", "").replace("../", ""))
    again.publish()
    assert [record.key for record in repo.runs.list()] == [key]
    assert repo.why(name).key == key
    assert repo.runs.rollback(key).record.state is RunState.ROLLED_BACK
    assert not repo.ref("main").exists(name)


def test_keys_that_a_branch_name_cannot_tell_apart_are_two_runs(repo):
    keys = ["a b", "a/b", "a:b", "a-b", "A b", "a  b"]
    branches = {repo.runs.open(key).branch for key in keys}
    assert len(branches) == len(keys)
    assert sorted(record.key for record in repo.runs.list()) == sorted(keys)


@pytest.mark.parametrize("key", ["", "   ", "\n", "k" * 4097, "🛬" * 1025, "lone \udcff", None, 5])
def test_what_is_no_key_is_refused_and_nothing_is_made(repo, key):
    with pytest.raises(InvalidInputError):
        repo.runs.open(key)
    with pytest.raises(InvalidInputError):
        repo.runs.open_or_attach(key, owner="me")
    with pytest.raises(InvalidInputError, match="owner"):
        repo.runs.open_or_attach(KEY, owner="")
    assert list(repo.runs.list()) == []
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]


STALE = {
    "put": lambda run: run.put("x", b"1"),
    "delete": lambda run: run.delete("settled"),
    "commit": lambda run: run.commit("x"),
    "step": lambda run: run.step("x"),
    "publish": lambda run: run.publish(),
    "judge": lambda run: run.judge([]),
    "renew": lambda run: run.renew(),
    "park": lambda run: run.park(),
    "abandon": lambda run: run.abandon(),
}


@pytest.mark.parametrize("then", ["open", "park", "publish", "abandon"])
def test_a_handle_of_an_older_attempt_is_always_refused(repo, tree, then):
    old = repo.runs.open(KEY)
    old.put("a", b"old")
    step = old.step("slow")
    stale = old.handle.to_json()
    run = repo.runs.open(KEY)
    assert (run.attempt, tree(run)) == (2, {"settled": "0"})  # staged writes are gone
    work(run, "new")
    if then != "open":
        getattr(run, then)()
    before, main = repo.runs.get(KEY), repo.commit("main")
    for use in STALE.values():
        for attempt in (old, repo.runs.attach(stale)):
            with pytest.raises(FencedError):
                use(attempt)
    for late in (lambda: step.put("a", b"zombie"), step.join):
        with pytest.raises(FencedError):
            late()
    assert repo.runs.attach(stale).close("late") == before
    assert (repo.runs.get(KEY), repo.commit("main")) == (before, main)


def test_a_handle_of_another_lake_or_repository_is_refused(repo, lake, tmp_path):
    run = repo.runs.open(KEY)
    other = lake.create_repository("weather")
    with pytest.raises(InvalidInputError, match="flights"):
        other.runs.attach(run.handle)
    with graveler.open(tmp_path / "other", create=True) as elsewhere:
        same_name = elsewhere.create_repository("flights")
        foreign = same_name.runs.attach(run.handle)
        for use in STALE.values():
            with pytest.raises((FencedError, RunNotFoundError)):
                use(foreign)
        same_name.runs.open(KEY)
        for use in STALE.values():
            with pytest.raises(FencedError):
                use(same_name.runs.attach(run.handle))
        assert same_name.runs.get(KEY).state is RunState.OPEN
    assert run.state is RunState.OPEN


HANDLE = '{"location":"x","repository":"flights","key":"k","branch":"b","attempt":1'
NO_HANDLES = [
    *("", "{}", "null", "[]", '"x"', "{", HANDLE + "}"),
    HANDLE.replace('"x"', "1") + ',"fence":"f"}',
    HANDLE.replace("1", '"1"') + ',"fence":"f"}',
    HANDLE.replace("1", "true") + ',"fence":"f"}',
]


def test_a_handle_is_whole_and_holds_no_secret(repo):
    run = repo.runs.open(KEY, metadata={"password": "hunter2"})
    for text in NO_HANDLES:
        with pytest.raises(InvalidInputError, match="not a run handle"):
            repo.runs.attach(text)
    assert "hunter2" not in run.handle.to_json()
    assert pickle.loads(pickle.dumps(run.handle)) == run.handle
    fields = {"location", "repository", "key", "branch", "attempt", "fence"}
    assert run.handle.__dataclass_fields__.keys() == fields
    assert repo.runs.attach(replace(run.handle, location="/etc")).handle == run.handle
    wrong = repo.runs.attach(replace(run.handle, attempt=99))
    for use in (lambda: wrong.put("x", b"1"), wrong.publish):
        with pytest.raises(FencedError, match="attempt"):
            use()
    assert not run.exists("x")


TARGETS = {
    "of a run": lambda run: run.branch,
    "of a step": lambda run: run.step("one.two").__enter__().name,
}


@pytest.mark.parametrize("how", OPEN)
@pytest.mark.parametrize("target", TARGETS)
def test_a_run_is_not_opened_into_the_branch_of_another(repo, how, target):
    honest = repo.runs.open("honest 1.5")
    branch = TARGETS[target](honest)
    opens = {
        "open": lambda: repo.runs.open("parasite", into=branch),
        "attach": lambda: repo.runs.open_or_attach("parasite", owner="o", into=branch),
    }
    with pytest.raises(InvalidInputError, match=rf"{branch}.* belongs to run 'honest 1\.5'"):
        opens[how]()
    with pytest.raises(RunNotFoundError):
        repo.runs.get("parasite")


def test_a_hidden_branch_of_a_user_takes_runs(repo):
    repo.create_branch("staging", hidden=True)
    with repo.run("hour", into="staging") as run:
        run.put("a", b"1")
    assert repo.ref("staging").get("a") == b"1"
