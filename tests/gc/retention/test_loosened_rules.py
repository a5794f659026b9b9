"""A rule loosened after a sweep restores nothing, and collection continues."""

import pytest

from graveler.errors import ExpiredError
from graveler.fsck.check import fsck
from tests.harness.gc_lakes import check_sound, collect, commit, keys, pass_days


@pytest.fixture
def repo(world):
    repo = world.repo(scripted=False)
    for number in range(8):
        pass_days(world, 1)
        commit(repo, "main", f"day {number}", p0=f"day {number}")
    repo.gc.keep("main", count=3)
    collect(repo)
    return repo


@pytest.mark.parametrize("rule", [{"days": 30}, {"count": 8}, {"days": 30, "count": 3}, {}])
def test_a_loosened_rule_keeps_what_is_left(world, repo, rule):
    expired = fsck(repo.stores).expired
    assert expired == 5
    if rule:
        repo.gc.keep("main", **rule)
    else:
        repo.gc.forget("main")
    left = keys(repo, "data/")
    pass_days(world, 1)
    commit(repo, "main", "the day after", p0="the day after")
    mark = collect(repo)
    assert not any(tally.count for tally in mark.freed.values())
    assert left <= keys(repo, "data/")
    assert fsck(repo.stores).expired == expired
    assert repo.ref("main~3").get("p0") == b"day 5"
    with pytest.raises(ExpiredError):
        repo.ref("main~4")
    check_sound(repo)


def test_a_longer_grace_after_a_sweep_is_no_obstacle(repo):
    mark = repo.gc.mark(grace="30d")
    assert not any(tally.count for tally in mark.condemned.values())
    check_sound(repo)
