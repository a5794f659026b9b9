"""Maintenance, which a scheduler runs daily: each of its parts alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from graveler.committed import metarange
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.errors import CorruptionError
from graveler.lake.repository import Repository
from graveler.repository.commits.packing import PACK_PAIR
from tests.harness.worlds import tree

RULE = Splitting(min_bytes=800, max_bytes=2_400, raggedness=2, hard=8)


@pytest.fixture
def repo(lake):
    """A repository in which main and dev have separate, badly cut ranges."""
    made = lake.create_repository("flights", splitting=RULE)
    main = made.branch("main")
    for hour in range(24):
        main.put_many((f"in/{hour:02d}/{part}", str(hour).encode()) for part in range(3))
        main.commit(f"hour {hour}")
    dev = made.create_branch("dev")
    for branch, first in ((main, 0), (dev, 1)):
        branch.delete_many([f"in/{hour:02d}/1" for hour in range(first, 24, 2)])
        branch.commit("deleted")
    made.packing.set(after=1, branches=["main", "dev"])
    return made


def packs(repo, branch):
    return [commit for commit in repo.log(branch) if PACK_PAIR in commit.metadata]


def test_maintenance_packs_the_branches_that_the_rule_names(repo):
    before = {name: (repo.stats(name), tree(repo.ref(name))) for name in ("main", "dev")}
    done = repo.maintain()
    done.check()
    assert [state.branch for state in done.branches] == ["dev", "main"]
    for state in done.branches:
        stats, shown = before[state.branch]
        assert (state.badly_cut, state.due) == (stats.badly_cut, True)
        assert state.packed.commit == repo.commit(state.branch)
        assert tree(repo.ref(state.branch)) == shown
        assert repo.stats(state.branch).badly_cut == 0
    again = repo.maintain()
    assert [(state.badly_cut, state.due, state.packed) for state in again.branches] == [
        (0, False, None)
    ] * 2


def test_a_branch_below_the_rule_is_left_as_it_is(repo):
    repo.packing.set(after=0)
    assert repo.maintain().branches == []
    found = repo.stats().badly_cut
    repo.packing.set(after=found + 1, branches=["main"])
    (state,) = repo.maintain().branches
    assert (state.branch, state.badly_cut, state.due) == ("main", found, False)
    repo.packing.set(after=found)
    (state,) = repo.maintain().branches
    assert state.packed.commit is not None


def test_a_dry_run_changes_nothing_and_parts_can_be_left_out(repo):
    run = repo.runs.open("hour 1", lease=timedelta(seconds=1))
    repo.stores.clock.advance(hours=1)
    repo.gc.keep(count=1)
    done = repo.maintain(pack=False, reap=False, gc=False)
    assert (done.branches, done.reaped, done.marks, done.errors) == ([], [], [], [])
    heads = {name: repo.commit(name) for name in ("main", "dev")}
    done = repo.maintain(dry_run=True)
    done.check()
    assert [(state.due, state.packed) for state in done.branches] == [(True, None)] * 2
    assert [reaped.key for reaped in done.reaped] == ["hour 1"]
    assert [mark.id for mark in done.marks] == [""]
    assert {name: repo.commit(name) for name in heads} == heads
    assert run.record.state == "OPEN"
    assert list(repo.gc.marks()) == []


def test_maintenance_reaps_runs_and_collects_garbage(repo):
    repo.runs.open("hour 1", lease=timedelta(seconds=1)).put("x", b"1")
    repo.stores.clock.advance(hours=1)
    assert repo.maintain(reap=False, pack=False).marks == []
    repo.gc.keep(count=1)
    done = repo.maintain()
    assert [(reaped.key, reaped.to_state) for reaped in done.reaped] == [("hour 1", "PARKED")]
    assert [mark.id for mark in done.marks] == [mark.id for mark in repo.gc.marks()] != []


def test_a_branch_that_fails_is_named_and_the_others_go_on(repo):
    own = {
        info.id
        for info in metarange.read(repo.stores.ranges, repo.commit("dev").metarange)
        if not info.natural
    } - {info.id for info in metarange.read(repo.stores.ranges, repo.commit("main").metarange)}
    for identifier in own:
        repo.stores.objects.delete(repo.stores.ranges.key(identifier))
    repo.runs.open("hour 1", lease=timedelta(seconds=1))
    repo.stores.clock.advance(hours=1)
    head = repo.commit("dev")
    cold = RangeStore(repo.stores.objects, RangeCache(None, 1 << 20))
    done = Repository(replace(repo.stores, ranges=cold)).maintain()
    assert [state.branch for state in done.branches] == ["main"]
    assert [reaped.key for reaped in done.reaped] == ["hour 1"]
    assert repo.commit("dev") == head
    assert packs(repo, "main")
    assert len(done.errors) == 1
    with pytest.raises(CorruptionError, match="branch 'dev': "):
        done.check()
