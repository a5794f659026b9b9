"""A preview of a merge has the same result as the merge, and changes nothing."""

from dataclasses import replace

import pytest

from graveler import checks
from graveler.errors import (
    GateFailedError,
    MergeConflictError,
)
from tests.harness.histories import commit


def everything(repo):
    """Return everything that a merge could write: stored objects, commits and refs."""
    stores = repo.stores
    return (
        {info.key for info in stores.objects.list()},
        {one.id for one in stores.refs.commits.list()},
        {record.name: record for record in repo.branches(hidden=True)},
    )


@pytest.fixture
def sides(repo):
    main = repo.branch("main")
    start = commit(main, same="1", gone="1", both="1", late="1")
    dev = repo.create_branch("dev", start.id)
    commit(dev, new="2", gone=None, both="dev", late="2")
    commit(main, both="main", other="1")
    return repo


def test_a_preview_shows_changes_and_conflicts_writes_nothing(sides):
    before = everything(sides)
    found = sides.preview_merge("dev", into="main")
    assert everything(sides) == before
    assert (found.added, found.changed, found.removed) == (1, 1, 1)
    assert [change.path for change in found.changes()] == ["gone", "late", "new"]
    assert (found.source, found.dest) == (sides.commit("dev"), sides.commit("main"))
    assert not found.already
    with pytest.raises(MergeConflictError) as refused:
        sides.merge("dev", into="main")
    assert (found.conflicts, found.conflict_count) == (refused.value.conflicts, 1)
    assert list(found.every_conflict()) == [
        replace(conflict, source_change=None, dest_change=None) for conflict in found.conflicts
    ]


@pytest.mark.parametrize("limit", range(6))
def test_a_limited_preview_says_whether_it_is_complete(sides, limit):
    found = sides.preview_merge("dev", into="main", limit=limit)
    counted = found.added + found.changed + found.removed + found.conflict_count
    assert (counted, found.complete) == (min(limit, 4), limit >= 4)


@pytest.mark.parametrize("strategy", ["source-wins", "dest-wins"])
def test_with_a_strategy_it_says_what_the_merge_then_does(sides, strategy):
    found = sides.preview_merge("dev", into="main", strategy=strategy)
    assert found.conflict_count == 0
    told = list(found.changes())
    before = sides.commit("main").id
    made = sides.merge("dev", into="main", strategy=strategy).commit
    assert told == list(sides.diff(before, made.id))
    again = sides.preview_merge("dev", into="main")
    assert again.already
    assert (again.added, again.changed, again.removed, list(again.changes())) == (0, 0, 0, [])


def test_the_gates_judge_what_the_merge_then_makes(sides):
    sides.gates.require("main", checks.file_size("new", 100, name="sizes"))
    dev = sides.branch("dev")
    commit(dev, both="1", late="1")
    before = sides.commit("main")
    found = sides.preview_merge("dev", into="main", message="words")
    (verdict,) = found.judge()
    assert (verdict.refuses, sides.commit("main")) == (True, before)
    with pytest.raises(GateFailedError) as refused:
        sides.merge("dev", into="main", message="words")
    assert [one.reason for one in refused.value.verdicts] == [verdict.reason]
    commit(dev, new="2" * 100)
    assert [one.passed for one in sides.preview_merge("dev", into="main").judge()] == [True]
    sides.merge("dev", into="main")
    assert sides.preview_merge("dev", into="main").judge() == ()
