"""Commits whose host had a wrong clock do not move the age of other commits."""

from datetime import timedelta

import pytest

from graveler.errors import StateError
from graveler.gc.reachability.graph import CommitGraph, Node
from graveler.gc.reachability.retention import Line, kept_commits, times_of
from graveler.gc.rules import Keep
from graveler.objects.memory import MemoryStore
from graveler.testing.clock import FakeClock
from tests.harness.gc_lakes import (
    DAY,
    NOW,
    check_sound,
    commit,
    counts,
    keys,
    made_key,
    pass_days,
)
from tests.harness.worlds import ScriptedWorld

YEARS = 3_000


class Chain(CommitGraph):
    """Commits 0, 1, 2, … on one line, made on the given days."""

    def __init__(self, days):
        self.nodes = {
            str(at): Node((str(at - 1),) if at else (), day * DAY * 10**6, (), at + 1)
            for at, day in enumerate(days)
        }

    def kept(self, now, keep):
        head = str(len(self.nodes) - 1)
        return sorted(map(int, kept_commits(self, [Line(head, keep)], now * DAY * 10**6)))


@pytest.mark.parametrize(("at", "years"), [(1, -1), (5, -1), (9, -1), (1, 1), (5, 1), (8, 1)])
def test_a_commit_of_a_wrong_clock_moves_no_other_one(at, years):
    days = list(range(100, 110))
    assert Chain(days).kept(110, Keep(days=7)) == list(range(3, 10))
    days[at] += years * YEARS
    kept = Chain(days).kept(110, Keep(days=7))
    assert set(kept) >= set(range(3, 10)) - {at}
    assert set(kept) <= set(range(2, 10))


def test_when_nothing_decides_commits_are_kept():
    assert Chain([100, 100 - YEARS]).kept(101, Keep(days=7)) == [0, 1]
    assert Chain([100, 101, 100 - YEARS, 101 - YEARS]).kept(102, Keep(days=7)) == [0, 1, 2, 3]


def test_lines_that_share_history_agree_about_it():
    chain = Chain([100, 101, 101 + YEARS, 102, 103])
    alone = times_of(chain, ["4"], 104 * DAY * 10**6)
    assert times_of(chain, ["2", "4", "3"], 104 * DAY * 10**6) == alone
    assert [alone[str(at)] // DAY // 10**6 for at in range(5)] == [100, 101, 102, 102, 103]


class SkewedWorld(ScriptedWorld):
    """A world whose storage has a clock of its own."""

    witnessed = True

    def lake(self, *, scripted=True, kv=None, threads=0):
        self.store_clock = self.__dict__.get("store_clock") or FakeClock()
        lake = super().lake(scripted=scripted, kv=kv, threads=threads)
        kept = self.__dict__.setdefault("_store", MemoryStore("skew", clock=self.store_clock))
        lake._open_store = lambda _uri: kept
        return lake


def test_rules_use_the_clock_of_the_store():
    world = SkewedWorld()
    repo = world.repo(scripted=False)
    first = commit(repo, "main", a="1")
    second = commit(repo, "main", a="2")
    repo.gc.keep(days=7)
    pass_days(world, 60)  # the host that collects is ahead
    assert counts(world.repo(scripted=False).gc.mark(grace=NOW).condemned) == {}
    world.store_clock.sleep(60 * DAY)
    assert repo.ref(first.id).get("a") == b"1"
    assert counts(world.repo(scripted=False).gc.mark(grace=NOW).condemned)["commits"] == 1
    assert second.created - first.created < timedelta(days=1)


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_machine_with_a_wrong_clock_deletes_nothing_young(hours):
    """The store's clock decides the age of objects and the end of a window."""
    world = SkewedWorld()
    repo = world.repo(scripted=False)
    world._clock.sleep(hours * 3_600)
    commit(repo, "main", a="1")
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    stray = repo.stores.objects.put(made_key(repo), b"x")
    before = keys(repo)
    grace, window = timedelta(hours=24), timedelta(hours=36)
    assert counts(repo.gc.mark(grace=grace, window=window).condemned) == {}
    for clock in (world.store_clock, world._clock):
        clock.sleep(25 * 3_600)
    mark = repo.gc.mark(grace=grace, window=window)
    assert counts(mark.condemned)["data"] == 2
    world._clock.sleep(1_000 * 3_600)  # the machine's clock jumps
    with pytest.raises(StateError, match="may be swept from"):
        repo.gc.sweep(mark.id)
    world._clock.sleep(-2_000 * 3_600)
    world.store_clock.sleep(36 * 3_600)
    repo.gc.sweep(mark.id)
    assert before - keys(repo) > {stray.key}
    assert check_sound(repo)["main"] == {"a": "1"}


@pytest.mark.parametrize("days", [-60, 60])
def test_a_commit_of_a_wrong_clock_has_the_time_of_the_store(days, caplog):
    world = SkewedWorld()
    repo = world.repo(scripted=False)
    pass_days(world, days)
    made = commit(repo, "main", a="1")
    assert abs(made.created - world.store_clock.now()) < timedelta(minutes=5)
    again = commit(repo, "main", a="2")
    assert again.created - made.created < timedelta(minutes=5)
    [warning] = [record for record in caplog.records if "clock" in record.getMessage()]
    assert f"{abs(days) * 24 * 60} minutes" in warning.getMessage()
    pass_days(world, -days)
    assert abs(commit(repo, "main", a="3").created - world.store_clock.now()) < timedelta(minutes=5)
    assert len([record for record in caplog.records if "clock" in record.getMessage()]) == 1


MOVES = {
    "revert": lambda repo: repo.revert("main", "main"),
    "empty commit": lambda repo: repo.branch("main").commit("empty", allow_empty=True),
    "merge": lambda repo: repo.merge("dev", "main"),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("days", [-60, 60])
def test_a_first_move_without_a_put_has_the_time_of_the_store(days, move):
    world = SkewedWorld()
    repo = world.repo(scripted=False)
    commit(repo, "main", a="1")
    repo.create_branch("dev", "main")
    commit(repo, "dev", b="1")
    pass_days(world, days)
    MOVES[move](world.repo(scripted=False))
    made = next(iter(repo.log("main")))
    assert abs(made.created - world.store_clock.now()) < timedelta(minutes=5)


def test_a_lost_race_of_counts_gives_the_time_of_the_store(monkeypatch):
    world = SkewedWorld()
    commit(world.repo(scripted=False), "main", a="1")
    pass_days(world, -60)
    put, faster = MemoryStore.put_if_match, [world.repo(scripted=False)]

    def late(store, *given):
        while faster:
            MOVES["empty commit"](faster.pop())
        return put(store, *given)

    monkeypatch.setattr(MemoryStore, "put_if_match", late)
    made = MOVES["empty commit"](world.repo(scripted=False))
    assert not faster
    assert abs(made.created - world.store_clock.now()) < timedelta(minutes=5)
