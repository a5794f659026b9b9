"""A target is rewound below an attempt, so a publish would restore what the target dropped."""

import pytest

from graveler.errors import MergeConflictError
from graveler.runs.state import RunState
from tests.harness.operations.rollback import KEY, publish


def reset(repo, before):
    repo.branch("pr").reset(before)


def undo(repo, before):
    repo.undo("pr")
    assert repo.commit("pr").id == before


def make_again(repo, before):
    repo.delete_branch("pr")
    repo.create_branch("pr", source=before)


@pytest.fixture
def before(repo):
    """The commit before an hour that tests drop again."""
    repo.create_branch("pr")
    publish(repo, "bad hour", {"bad": "1"}, into="pr")
    return repo.commit("pr~1").id


@pytest.fixture
def run(repo, before):
    run = repo.runs.open(KEY, into="pr")
    work(run)
    return run


def work(run):
    with run.step("work") as step:
        step.put("a", b"1")


@pytest.mark.parametrize("rewind", [reset, undo, make_again])
def test_what_a_target_has_dropped_is_not_brought_back(repo, tree, before, run, rewind):
    rewind(repo, before)
    with pytest.raises(MergeConflictError, match="next attempt starts from 'pr' as it is now"):
        run.publish()
    assert repo.runs.get(KEY).state is RunState.PARKED
    assert tree(repo.ref("pr")) == {"settled": "0"}
    again = repo.runs.open(KEY, into="pr")
    assert not again.record.resumed
    work(again)
    again.publish()
    assert tree(repo.ref("pr")) == {"settled": "0", "a": "1"}


def test_a_parked_attempt_of_a_dropped_head_is_not_resumed(repo, tree, before, run, caplog):
    run.park()
    reset(repo, before)
    again = repo.runs.open(KEY, into="pr")
    assert not again.record.resumed
    assert "'pr' was put back" in caplog.text
    assert "a" not in tree(again)
    work(again)
    again.publish()
    assert tree(repo.ref("pr")) == {"settled": "0", "a": "1"}


def test_its_steps_are_lost_where_a_target_was_put_back(repo, before, run):
    made = {name: step.commit.id for name, step in run.joined_steps().items()}
    assert run.lost_steps(made) == ()
    reset(repo, before)
    assert run.lost_steps(made) == ("work",)


def test_an_attempt_is_published_where_the_head_came_back(repo, tree, before, run):
    reset(repo, before)
    repo.undo("pr")
    run.publish()
    assert tree(repo.ref("pr")) == {"settled": "0", "bad": "1", "a": "1"}
