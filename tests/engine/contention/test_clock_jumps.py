"""A clock that jumps two days forward or back changes timestamps and nothing else."""

from datetime import timedelta
from itertools import count

import pytest

from graveler.base.background import Inline
from graveler.base.clock import RandomIds
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.errors import GravelerError
from graveler.lake.factory import connect
from graveler.refs.reflog import tag_moves
from graveler.testing.clock import FakeClock
from tests.harness.worlds import tree

_numbers = count(1)
TWO_DAYS = timedelta(days=2)


def opened(clock):
    config = LakeConfig("x", "mem://", f"mem://jump{next(_numbers)}", cache_folder=None)
    lake = connect(config, clock=clock, ids=RandomIds(clock), background=Inline())
    rule = Splitting(min_bytes=0, max_bytes=2_000, raggedness=3)
    return lake.create_repository("flights", splitting=rule)


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
