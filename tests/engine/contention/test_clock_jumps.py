"""A clock that jumps two days forward or back changes timestamps and nothing else."""

import random
from datetime import UTC, datetime, timedelta
from itertools import combinations, count

import pytest

from graveler.base.background import Inline
from graveler.base.clock import Clock, RandomIds
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.errors import GravelerError, MergeConflictError, NoChangesError, NotFoundError
from graveler.fsck.check import fsck
from graveler.lake.factory import connect
from graveler.model import Entry
from graveler.refs.history import merge_bases
from graveler.refs.reflog import tag_moves
from graveler.testing.clock import FakeClock
from tests.harness.worlds import tree

_numbers = count(1)
TWO_DAYS = timedelta(days=2)


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


class History:
    """Random operations on a repository, which do not depend on the time."""

    OFTEN = ("put", "put", "put", "link", "delete", "commit", "commit", "merge", "create", "drop")
    SELDOM = ("tag", "reset", "run", "fail", "revert", "undo")

    def __init__(self, repo, seed):
        self.repo = repo
        self.dice = random.Random(seed)
        self.branches = ["main"]
        self.outcomes = []
        for number in range(4):
            repo.stores.objects.put(f"data/linked-{number}", b"linked")

    def go_on(self, steps):
        for self.number in range(steps):
            what = self.dice.choice(self.OFTEN if self.dice.random() < 0.7 else self.SELDOM)
            self.name, self.other = self.dice.choice(self.branches), self.dice.choice(self.branches)
            self.path = f"{self.dice.choice('abc')}/{self.dice.randrange(12):02}"
            self.body = f"{self.dice.randrange(4)}"
            try:
                getattr(self, what)()
            except (GravelerError, RuntimeError) as error:
                self.outcomes.append((self.number, what, type(error).__name__))
        return self.outcomes

    @property
    def branch(self):
        return self.repo.branch(self.name)

    def put(self):
        self.branch.put(self.path, self.body.encode())

    def link(self):
        self.branch.link(self.path, address=f"data/linked-{self.body}", size=6)

    def delete(self):
        self.branch.delete(self.path)

    def commit(self):
        self.branch.commit(f"{self.number}")

    def merge(self):
        message = f"{self.number}"
        self.repo.merge(self.other, into=self.name, message=message, strategy="source-wins")

    def create(self):
        self.repo.create_branch(f"b{self.number}", self.name)
        self.branches.append(f"b{self.number}")

    def drop(self):
        self.repo.delete_branch(self.name)
        self.branches.remove(self.name)

    def tag(self):
        self.repo.tags.create(f"t{self.number}", self.name)

    def reset(self):
        self.branch.reset()

    def revert(self):
        self.repo.revert(self.name, self.name, parent=1, message=f"{self.number}")

    def undo(self):
        self.repo.undo(self.name)

    def run(self, *, fails=False):
        # leases and times to live depend on the clock, so these outlast the test
        long = timedelta(days=36_500)
        with self.repo.run(f"r{self.number % 5}", into=self.name, lease=long, ttl=long) as run:
            run.put(f"runs/{self.number}", self.body.encode())
            with run.step("s") as step:
                step.put(f"steps/{self.number}", self.body.encode())
            if fails:
                raise RuntimeError(self.name)

    def fail(self):
        self.run(fails=True)


def shown(repo):
    """Return everything that can be read, without times and without ids, which depend on times."""
    branches = [record.name for record in repo.branches(hidden=True) if not record.hidden]
    commits = repo.stores.refs.commits
    message = {commit.id: commit.message for name in branches for commit in repo.log(name)}
    return {
        "committed": {name: contents(repo.ref(name)) for name in branches},
        "staged": {
            name: [(change.path, change.kind) for change in repo.branch(name).uncommitted()]
            for name in branches
        },
        "first parents": {
            name: [commit.message for commit in repo.log(name, first_parent=True)]
            for name in branches
        },
        "logs": {name: sorted(commit.message for commit in repo.log(name)) for name in branches},
        "parents": {
            (commit.message, commit.generation): [message[parent] for parent in commit.parents]
            for name in branches
            for commit in repo.log(name)
        },
        "diffs": {
            pair: [(change.path, change.kind) for change in repo.diff(*pair)]
            for pair in combinations(branches, 2)
        },
        "bases": {
            (left, right): [
                base.generation
                for base in merge_bases(commits, repo.commit(left).id, repo.commit(right).id)
            ]
            for left, right in combinations(branches, 2)
        },
        "tags": {name: commits.get(commit).message for name, commit in repo.tags.list().items()},
        "runs": {record.key: (record.state, record.attempt) for record in repo.runs.list()},
        "moves": {
            name: [move.action for move in repo.stores.refs.moves.of(branch_record(repo, name))]
            for name in branches
        },
    }


def branch_record(repo, name):
    return repo.stores.refs.branches.get(name)


def contents(view):
    return {
        entry.path: entry.address if "://" in entry.address else view.get(entry.path)
        for entry in view.list()
        if isinstance(entry, Entry)
    }


@pytest.fixture(params=["mem", "sqlite"])
def opened(request, tmp_path):
    """Opens lakes with a clock of the test."""
    lakes = []

    def open_lake(clock):
        number = next(_numbers)
        place = tmp_path / f"{number}"
        local = request.param == "sqlite"
        config = LakeConfig(
            location=str(place),
            kv_uri=f"sqlite://{place / 'kv'}" if local else "mem://",
            storage_uri=f"file://{place / 'objects'}" if local else f"mem://jump{number}",
            cache_folder=None,
        )
        lakes.append(connect(config, clock=clock, ids=RandomIds(clock), background=Inline()))
        rule = Splitting(min_bytes=0, max_bytes=2_000, raggedness=3)
        return lakes[-1].create_repository("flights", splitting=rule)

    yield open_lake
    for lake in lakes:
        lake.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("opened", ["mem"], indirect=True)
def test_one_history_reads_the_same_by_steady_and_jumping_clocks(opened, seed):
    steady, clock = opened(FakeClock()), JumpingClock(seed)
    jumping = opened(clock)
    assert History(steady, seed).go_on(150) == History(jumping, seed).go_on(150)
    assert min(clock.jumps) > 50
    expected = shown(steady)
    assert shown(jumping) == expected
    assert len(expected["committed"]) > 2
    assert any(len(log) > 10 for log in expected["logs"].values())
    assert fsck(jumping.stores, objects="none").sound


@pytest.mark.parametrize("opened", ["sqlite"], indirect=True)
def test_so_it_does_on_disk(opened):
    clock = JumpingClock(9)
    steady, jumping = opened(FakeClock()), opened(clock)
    assert History(steady, 9).go_on(40) == History(jumping, 9).go_on(40)
    assert min(clock.jumps) > 10
    assert shown(jumping) == shown(steady)


@pytest.mark.parametrize("opened", ["mem"], indirect=True)
def test_a_log_has_children_before_parents_whatever_their_times(opened):
    clock = JumpingClock(1)
    repo = opened(clock)
    History(repo, 1).go_on(150)
    commits = list(repo.log("main"))
    assert any(
        repo.commit(parent).created > commit.created
        for commit in commits
        for parent in commit.parents
    )
    seen: set[str] = set()
    for commit in commits:
        assert not seen & set(commit.parents)
        seen.add(commit.id)


def test_a_run_opened_before_a_clock_jump_is_published_after_it(opened):
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
def test_a_deleted_branch_comes_back_as_it_was_last(opened, jump):
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
def test_the_log_of_a_tag_keeps_its_order(opened, jump):
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


def test_conflicts_are_those_of_the_contents(opened):
    clock = FakeClock()
    repo = opened(clock)
    repo.create_branch("dev").put("a", b"1")
    repo.branch("dev").commit("one")
    clock.sleep(-TWO_DAYS.total_seconds())
    repo.branch("main").put("a", b"2")
    repo.branch("main").commit("two")
    with pytest.raises(MergeConflictError) as told:
        repo.merge("dev", into="main")
    assert [conflict.path for conflict in told.value.conflicts] == ["a"]
    with pytest.raises(NoChangesError):
        repo.branch("main").commit("nothing")
    with pytest.raises(NotFoundError):
        repo.branch("main").stat("b")
