"""A clock that jumps two days forward or back changes timestamps and nothing else."""

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import combinations, count

import pytest

from graveler.base.background import Inline
from graveler.base.clock import Clock, RandomIds
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.errors import GravelerError
from graveler.fsck.check import fsck
from graveler.lake.factory import connect
from graveler.refs.reflog import tag_moves
from graveler.testing.clock import FakeClock
from tests.harness.worlds import tree

_numbers = count(1)
TWO_DAYS, LONG = timedelta(days=2), timedelta(days=36_500)


class JumpingClock(Clock):
    """A clock that jumps at random when it is read."""

    def __init__(self, seed):
        self._dice = random.Random(seed)
        self._now = datetime(2013, 1, 1, tzinfo=UTC)
        self.jumps = [0, 0]

    def now(self):
        self._now += timedelta(microseconds=self._dice.randrange(3))  # it may also stand still
        if self._dice.random() < 0.2:
            forward = self._dice.random() < 0.5
            self.jumps[forward] += 1
            self._now += TWO_DAYS if forward else -TWO_DAYS
        return self._now

    def sleep(self, seconds):
        self._now += timedelta(seconds=seconds)


def history(repo):
    """Make every kind of move, none of which depends on the time."""
    main = repo.branch("main")
    for number in range(12):
        main.put_many((f"{letter}/{number:02}", b"%d" % number) for letter in "abc")
        main.commit(f"main {number}")
    dev, fix = repo.create_branch("dev"), repo.create_branch("fix")
    for number in range(6):
        for branch in (dev, fix):
            branch.put(f"{branch.name}/{number}", b"1")
            branch.delete(f"a/{number:02}")
            branch.commit(f"{branch.name} {number}")
        repo.merge("dev", into="fix", message=f"fix takes {number}")
        repo.merge("fix", into="dev", message=f"dev takes {number}")
        repo.tags.create(f"t{number}", "dev")
    repo.merge("dev", into="main", message="all", strategy="source-wins")
    repo.revert("main", "main", parent=1, message="reverted")
    repo.undo("main")
    main.put("dropped", b"1")
    main.reset()
    for key, fails in (("one", False), ("two", True), ("two", False)):
        with suppress(RuntimeError), repo.run(key, lease=LONG, ttl=LONG) as run:
            with run.step("s") as step:
                step.put(f"steps/{key}", b"1")
            if fails:
                raise RuntimeError
    repo.delete_branch("fix")
    main.put("staged", b"1")


def shown(repo):
    """Return what can be read, without times and without ids, which depend on times."""
    branches = [record.name for record in repo.branches()]
    refs = repo.stores.refs
    return {
        "committed": {name: tree(repo.ref(name)) for name in branches},
        "staged": {
            name: [(change.path, change.kind) for change in repo.branch(name).uncommitted()]
            for name in branches
        },
        "first parents": {
            name: [commit.message for commit in repo.log(name, first_parent=True)]
            for name in branches
        },
        "logs": {name: sorted(commit.message for commit in repo.log(name)) for name in branches},
        "diffs": {
            pair: [(change.path, change.kind) for change in repo.diff(*pair)]
            for pair in combinations(branches, 2)
        },
        "tags": {name: repo.commit(commit).message for name, commit in repo.tags.list().items()},
        "runs": {record.key: (record.state, record.attempt) for record in repo.runs.list()},
        "moves": {
            name: [move.action for move in refs.moves.of(refs.branches.get(name))]
            for name in branches
        },
    }


def opened(clock):
    config = LakeConfig("x", "mem://", f"mem://jump{next(_numbers)}", cache_folder=None)
    lake = connect(config, clock=clock, ids=RandomIds(clock), background=Inline())
    rule = Splitting(min_bytes=0, max_bytes=2_000, raggedness=3)
    return lake.create_repository("flights", splitting=rule)


@pytest.mark.parametrize("seed", range(3))
def test_one_history_reads_the_same_by_steady_and_jumping_clocks(seed):
    steady, clock = opened(FakeClock()), JumpingClock(seed)
    jumping = opened(clock)
    history(steady)
    history(jumping)
    assert min(clock.jumps) > 10
    assert shown(jumping) == shown(steady)
    assert fsck(jumping.stores, objects="none").sound


def test_a_run_opened_before_a_clock_jump_is_published_after_it():
    clock = FakeClock()
    repo = opened(clock)
    run = repo.runs.open("hourly")
    run.put("a", b"1")
    run.commit("first")
    for jump in (-TWO_DAYS, TWO_DAYS, TWO_DAYS, -TWO_DAYS):
        clock.sleep(jump.total_seconds())
        again = repo.runs.open("hourly")
        assert again.attempt == run.attempt + 1
        assert again.get("a") == b"1"
        with pytest.raises(GravelerError):
            run.put("b", b"late")
        run = again
    result = run.publish()
    assert tree(repo.ref("main")) == {"a": "1"}
    assert run.publish().commit == result.commit


@pytest.mark.parametrize("jump", [TWO_DAYS, -TWO_DAYS])
def test_a_deleted_branch_comes_back_as_it_was_last(jump):
    clock = FakeClock()
    repo = opened(clock)
    for body in ("1", "2"):
        repo.create_branch("dev").put("a", body.encode())
        repo.branch("dev").commit(body)
        repo.delete_branch("dev")
        clock.sleep(jump.total_seconds())
    repo.undo("dev")
    assert tree(repo.ref("dev")) == {"a": "2"}


@pytest.mark.parametrize("jump", [TWO_DAYS, -TWO_DAYS])
def test_the_log_of_a_tag_keeps_its_order(jump):
    clock = FakeClock()
    repo = opened(clock)
    heads = []
    for body in ("1", "2", "3"):
        repo.branch("main").put("a", body.encode())
        heads.append(repo.branch("main").commit(body).id)
        repo.tags.create("v")
        clock.sleep(jump.total_seconds())
        repo.tags.delete("v")
        clock.sleep(jump.total_seconds())
    moves = list(tag_moves(repo.stores.refs, "v"))
    assert [move.after for move in moves] == [None, heads[2], None, heads[1], None, heads[0]]


@pytest.mark.parametrize("jump", [TWO_DAYS, -TWO_DAYS])
def test_ids_stay_unique_over_a_jump(jump):
    clock = FakeClock()
    ids = RandomIds(clock)
    seen: set[str] = set()
    for _ in range(50):
        clock.sleep(jump.total_seconds())
        seen |= {ids.unique() for _ in range(50)}
        clock.sleep(-jump.total_seconds())
        seen |= {ids.unique() for _ in range(50)}
    assert len(seen) == 50 * 100
    assert {len(one) for one in seen} == {32}
    assert all(int(one, 16) >= 0 for one in seen)
