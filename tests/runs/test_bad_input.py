"""External problems: deleted branches, odd keys, stale and foreign handles, an unreachable lake."""

from dataclasses import replace

import pytest

import graveler
from graveler.errors import (
    BackendUnavailableError,
    FencedError,
    GravelerError,
    InvalidInputError,
    RunNotFoundError,
)
from graveler.refs.mover import remove
from graveler.runs.record import RunHandle
from graveler.runs.state import RunState
from graveler.testing.faults import unavailable
from tests.harness.worlds import ScriptedWorld
from tests.harness.worlds import tree as tree_of

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


def test_it_may_be_deleted_again_and_again(repo, tree):
    for number in range(4):
        run = repo.runs.open_or_attach(KEY, owner=f"owner {number}")
        work(run, f"step {number}")
        delete(repo, run.branch)
        with pytest.raises(FencedError):
            repo.runs.open_or_attach(KEY, owner=f"owner {number}")
    run = repo.runs.open(KEY)
    assert set(tree(run)) == {"settled", *(f"step {number}" for number in range(4))}


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
    assert list(repo.runs.list()) == []
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]


STALE = {
    "put": lambda run: run.put("x", b"1"),
    "commit": lambda run: run.commit("x"),
    "step": lambda run: run.step("x"),
    "publish": lambda run: run.publish(),
    "judge": lambda run: run.judge([]),
    "renew": lambda run: run.renew(),
    "park": lambda run: run.park(),
    "abandon": lambda run: run.abandon(),
}


@pytest.mark.parametrize("use", STALE)
@pytest.mark.parametrize("then", ["open", "parked", "published", "given up"])
def test_a_handle_of_an_older_attempt_is_always_refused(repo, use, then):
    stale = repo.runs.open(KEY).handle.to_json()
    run = repo.runs.open(KEY)
    run.put("new", b"1")
    run.commit("new")
    if then != "open":
        {"parked": run.park, "published": run.publish, "given up": run.abandon}[then]()
    before, main = repo.runs.get(KEY), repo.commit("main")
    with pytest.raises(FencedError):
        STALE[use](repo.runs.attach(stale))
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


@pytest.mark.parametrize("work", [lambda run: run.put("x", b"1"), lambda run: run.publish()])
def test_a_handle_with_a_wrong_attempt_is_refused(repo, work):
    run = repo.runs.open(KEY)
    with pytest.raises(FencedError, match="attempt"):
        work(repo.runs.attach(replace(run.handle, attempt=99)))
    run.put("y", b"1")
    assert (run.exists("x"), run.exists("y")) == (False, True)


def test_an_attached_run_hands_on_the_lake_it_is_attached_in(repo):
    run = repo.runs.open(KEY)
    attached = repo.runs.attach(replace(run.handle, location="/etc"))
    assert attached.handle == run.handle


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "[]",
        '"x"',
        "{",
        '{"location":1,"repository":"flights","key":"k","branch":"b","attempt":1,"fence":"f"}',
        '{"location":"x","repository":"flights","key":"k","branch":"b","attempt":"1","fence":"f"}',
        '{"location":"x","repository":"flights","key":"k","branch":"b","attempt":true,"fence":"f"}',
        '{"location":"x","repository":"flights","key":"k","branch":"b","attempt":1}',
    ],
)
def test_what_is_no_handle_is_refused(repo, text):
    with pytest.raises(InvalidInputError, match="not a run handle"):
        repo.runs.attach(text)


def test_a_handle_holds_no_secret(repo):
    handle = repo.runs.open(KEY, metadata={"password": "hunter2"}).handle
    assert "hunter2" not in handle.to_json()
    assert set(handle.__dataclass_fields__) == {
        "location",
        "repository",
        "key",
        "branch",
        "attempt",
        "fence",
    }


def test_a_lake_unreachable_at_any_call_leaves_main_and_recovers():
    """The whole run of an orchestrator, with the lake unreachable at one call after another."""

    def orchestrate(repo):
        run = repo.runs.open_or_attach(KEY, owner="dag run 1")
        try:
            work(repo.runs.attach(run.handle), "one")
            work(repo.runs.open_or_attach(KEY, owner="dag run 1"), "two")
            run.publish()
        finally:
            run.close("the end")

    number = 0
    while True:
        number += 1
        world = ScriptedWorld()
        world.script.arm(number, unavailable)
        failed = None
        try:
            orchestrate(world.repo())
        except GravelerError as error:
            failed = error
        if not world.script.disarm():
            break
        assert failed is None or isinstance(failed, BackendUnavailableError | FencedError), failed
        repo = world.repo()
        assert tree_of(repo.ref("main")) in ({}, {"one": "one", "two": "two"})
        again = repo.runs.open_or_attach(KEY, owner="dag run 2")
        for name in ("one", "two"):
            work(again, name)
        again.publish()
        assert tree_of(repo.ref("main")) == {"one": "one", "two": "two"}
    assert number > 60


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
