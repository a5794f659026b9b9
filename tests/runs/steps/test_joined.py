"""Which steps a run still holds, which are gone, and how a step is undone."""

import pytest

from graveler.errors import FencedError

KEY = "hourly 2013-01-01T05:00"
START = "work A/first f=1; work A/second s=1; "
LOST = {
    "nothing where the run goes on": "lost A; park A; lost A",
    "nothing where the publish stands": "land A; B o=1; lost A; work A/second t=1; lost A; land A; "
    "lost A",
    "nothing by a round without changes": "land A; work A/; land A; lost A",
    "work that was given up": "abandon A; lost A first second; work A/second s=1; lost A first",
    "work of a later round that was given up": "land A; work A/first n=1; abandon A; lost A first",
    "work whose publish was rolled back": "land A; rollback A; lost A first second; "
    "work A/first f=1; work A/second s=1; lost A; land A; lost A",
    "work reverted by hand, until that is": "it: land A; back: revert it; lost A first second; "
    "revert back; lost A",
    "work reverted below an attempt": "it: land A; work A/second t=1; revert it; lost A first",
    "a step that was undone": "drop A/second; lost A second",
    "work published into another branch": "branch pr; land A; work A/@pr; lost A first second",
}


@pytest.mark.parametrize("told", LOST.values(), ids=LOST)
def test_steps_are_lost_whose_work_is_gone(history, told):
    history.play(START + told)


def write(run, name, *paths, body=b"1"):
    with run.step(name) as step:
        for path in paths:
            step.put(path, body)
    return step.result.id


@pytest.fixture
def run(repo):
    return repo.runs.open(KEY)


def test_undoing_a_step_equals_a_retry_that_wrote_nothing(run, tree):
    write(run, "first", "own", "shared", "settled")
    write(run, "second", "shared", body=b"2")
    taken = run.undo_step("first", metadata={"why": "skipped"})
    assert tree(run) == {"settled": "0", "shared": "2"}
    assert run.head == taken
    assert (taken.message, taken.metadata["why"]) == ("first: undone", "skipped")
    joined = run.joined_steps()
    assert (joined["first"].changed, joined["second"].changed) == (False, True)
    assert run.undo_step("never") is None
    assert run.head == taken


def test_a_step_of_an_earlier_round_can_be_taken_back(repo, run, tree):
    made = {name: write(run, name, f"{name}/file") for name in ("first", "second")}
    run.publish()
    assert run.joined_steps() == {}  # the branch is gone
    assert run.lost_steps(made) == ()
    again = repo.runs.open(KEY)
    assert again.joined_steps()["first"].published == run.record.heads[-1]
    newer = repo.runs.open(KEY)
    with pytest.raises(FencedError):
        again.undo_step("second")
    newer.undo_step("second")
    assert [there.name for there in repo.branches(hidden=True)] == ["main", run.branch]
    newer.publish()
    assert tree(repo.ref("main")) == {"settled": "0", "first/file": "1"}
