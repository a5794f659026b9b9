"""A fault at every call of a run's life: main is old or new, and the next attempt succeeds."""

import logging

import pytest

from graveler.errors import GravelerError, RunStateError
from graveler.runs.state import RunState
from graveler.testing.faults import ProcessDied
from tests.harness.faults import dies
from tests.harness.operations.runs import (
    KEY,
    NEW,
    OLD,
    OPERATIONS,
    complete,
    handle,
    ready,
    work,
)
from tests.harness.worlds import FAULTS, struck_worlds, tree


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """Hide the log of runs that cannot be parked, which these tests do not check."""
    caplog.set_level(logging.CRITICAL)


KEEPS_TWO = ("open-parked", "judge", "publish", "park", "step-again", "close", "renew", "reap")


def published(repo):
    """Return the commits that brought the run's work into main, without those without changes."""
    return [
        commit
        for commit in repo.log("main", first_parent=True)
        if commit.metadata.get("graveler.published") == "true"
        and commit.metarange != repo.commit(commit.parents[0]).metarange
    ]


def finish(repo):
    """Do what an orchestrator does next: run the key again, unless it is published."""
    if KEY in {record.key for record in repo.runs.list()}:
        record = repo.runs.get(KEY)
        if record.state is RunState.PUBLISHED:
            return
    with repo.run(KEY, gates=[complete]) as run:
        if run.record.state is RunState.OPEN and not run.exists("one"):
            work(run, "one")
        work(run, "two")


def persist(operate):
    """Repeat the operation until it is acknowledged."""
    while True:
        try:
            return operate()
        except RunStateError:
            raise
        except (GravelerError, ProcessDied):
            continue


REPEATED = ("publish", "step", "park-by-key", "abandon-by-key")
OVERDUE = ("reap-others", "open-beside-overdue")
ONCE = [name for name in OPERATIONS if name not in (*OVERDUE, *REPEATED[2:])]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", REPEATED)
def test_what_is_repeated_until_acknowledged_happens_once(operation, fault):
    answers = []
    prepare, operate = OPERATIONS[operation]
    for world, what, failed in struck_worlds(
        fault, prepare, lambda repo: answers.append(persist(lambda: operate(repo)))
    ):
        repo = world.repo()
        record = repo.runs.get(KEY)
        if failed is not None:  # a gate that failed refuses
            assert (operation, record.state) == ("publish", RunState.PARKED), what
            continue
        hidden = [there.name for there in repo.branches(hidden=True) if there.hidden]
        assert hidden == ([record.branch] if record.live else []), what
        assert tree(repo.ref("main")) == (NEW if operation == "publish" else OLD), what
        if operation == "publish":
            (commit,) = published(repo)
            assert answers[-1].commit.id == commit.id == record.commit, what
        elif operation == "step":
            assert tree(handle(repo)) == NEW, what
        else:
            after = {"park-by-key": RunState.PARKED, "abandon-by-key": RunState.REAPED}[operation]
            assert record.state is after, what


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", ONCE)
def test_main_is_old_or_new_and_the_next_attempt_gets_through(operation, fault):
    prepare, operate = OPERATIONS[operation]
    for world, what, failed in struck_worlds(fault, prepare, operate):
        repo = world.repo()
        assert tree(repo.ref("main")) in (OLD, NEW), what
        assert tree(repo.branch("main"))["staged"] == "acknowledged", what
        if tree(repo.ref("main")) == OLD:
            assert published(repo) == [], what
        keeps(operation, repo, failed, what)

        finish(world.repo())
        assert tree(repo.ref("main")) == NEW, what
        assert len(published(repo)) == 1, what
        assert tree(repo.branch("main"))["staged"] == "acknowledged", what


def keeps(operation, repo, failed, there):
    """Check that acknowledged work is kept, in main or on the branch that is resumed."""
    records = list(repo.runs.list())
    assert records or failed is not None
    if not records or operation in ("abandon", "open-published"):
        return
    (record,) = [record for record in records if record.key == KEY]
    if operation in ("open", "attach", "whole", "orchestrated"):
        return
    if record.state is RunState.PUBLISHED:
        assert tree(repo.ref("main")) == NEW, there
        return
    held = tree(repo.ref("main")) | tree(repo.ref(record.branch))
    assert held["one"] == "one", there
    if operation in KEEPS_TWO:
        assert held["two"] == "two", there
    if operation in ("step", "commit") and failed is None:
        assert held["two"] == "two", there


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OVERDUE)
def test_reaping_is_repeated_until_it_is_done_and_loses_nothing(operation, fault):
    prepare, operate = OPERATIONS[operation]
    for world, what, failed in struck_worlds(
        fault, prepare, lambda repo: persist(lambda: operate(repo))
    ):
        assert failed is None, what
        repo = world.repo()
        persist(lambda: repo.runs.reap(dry_run=False))  # noqa: B023
        states = {record.key: str(record.state) for record in repo.runs.list()}
        states.pop("another", None)
        assert states == {
            KEY: "OPEN",
            "to park": "PARKED",
            "to drop": "REAPED",
            "to give up": "REAPED",
        }, what
        assert tree(repo.ref("main")) == OLD, what
        names = {KEY, "to park"} | ({"another"} if operation == "open-beside-overdue" else set())
        assert set(hidden(repo)) == {repo.runs.get(name).branch for name in names}, what
        assert repo.runs.open("to park").exists("to park"), what


def test_a_new_round_starts_from_the_target_after_any_death():
    """The publisher died before it dropped the branch, and later openers before they took it."""
    left_behind = 0
    publish = lambda repo: handle(repo).publish()  # noqa: E731 - one short call
    for world, what, _ in struck_worlds("dies", ready, publish, step=1):
        repo = world.repo()
        if repo.runs.get(KEY).state is not RunState.PUBLISHED or len(hidden(repo)) == 0:
            continue
        left_behind += 1
        main = repo.branch("main")
        main.put("moved", b"1")
        main.commit("moved")
        for number in range(1, 6):
            world.script.arm(number, dies)
            with pytest.raises(ProcessDied):
                world.repo().runs.open(KEY)
            world.script.disarm()
        run = world.repo().runs.open(KEY)
        assert tree(run) == {**NEW, "staged": "acknowledged", "moved": "1"}, what
        assert run.head.id == run.record.base
    assert left_behind


def hidden(repo):
    return [record.name for record in repo.branches(hidden=True) if record.hidden]
