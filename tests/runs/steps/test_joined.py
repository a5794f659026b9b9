"""Which steps a run still holds, which are gone, and how a step is undone."""

import pytest

from graveler.errors import FencedError

KEY = "hourly 2013-01-01T05:00"


def joined(run):
    return run.joined_steps()


def lost(run, made):
    return run.lost_steps(made)


def write(run, name, *paths, body=b"1"):
    with run.step(name) as step:
        for path in paths:
            step.put(path, body)
    return step.result.id


@pytest.fixture
def run(repo):
    return repo.runs.open(KEY)


@pytest.fixture
def made(run):
    """Two steps, with the commits by which they joined."""
    return {name: write(run, name, f"{name}/file") for name in ("first", "second")}


def test_undoing_a_step_equals_a_retry_that_wrote_nothing(run, tree):
    write(run, "first", "own", "shared", "settled")
    write(run, "second", "shared", body=b"2")
    taken = run.undo_step("first", metadata={"why": "skipped"})
    assert tree(run) == {"settled": "0", "shared": "2"}
    assert run.head == taken
    assert taken.message == "first: undone"
    assert taken.metadata["why"] == "skipped"
    assert not joined(run)["first"].changed
    assert joined(run)["second"].changed


def test_what_never_joined_is_taken_back_by_doing_nothing(repo, run, tree):
    head = run.head
    assert run.undo_step("never") is None
    assert run.head == head
    assert [there.name for there in repo.branches(hidden=True)] == ["main", run.branch]


def test_a_step_of_an_earlier_round_can_be_taken_back(repo, run, made, tree):
    run.publish()
    again = repo.runs.open(KEY)
    again.undo_step("second")
    again.publish()
    assert tree(repo.ref("main")) == {"settled": "0", "first/file": "1"}


def test_a_stale_attempt_takes_nothing_back(repo, run, made, tree):
    newer = repo.runs.open(KEY)
    with pytest.raises(FencedError):
        run.undo_step("first")
    assert set(tree(newer)) == {"settled", "first/file", "second/file"}
    assert [there.name for there in repo.branches(hidden=True)] == ["main", run.branch]


def test_nothing_is_lost_where_the_run_goes_on(repo, run, made):
    assert lost(run, made) == ()
    run.park("the third failed")
    assert lost(repo.runs.open(KEY), made) == ()


def test_nothing_is_lost_where_the_earlier_publish_stands(repo, run, made):
    run.publish()
    with repo.run("another hour") as other:
        other.put("other", b"1")
    again = repo.runs.open(KEY)
    assert lost(again, made) == ()
    assert joined(again)["first"].published == run.record.heads[-1]
    made["second"] = write(again, "second", "second/other file")
    assert lost(again, made) == ()
    again.publish()
    assert lost(repo.runs.open(KEY), made) == ()


def test_what_a_run_without_changes_published_is_not_lost(repo, run, made):
    run.publish()
    repo.runs.open(KEY).publish()
    assert lost(repo.runs.open(KEY), made) == ()


def test_work_on_a_branch_that_was_given_up_is_lost(repo, run, made):
    run.abandon("dropped")
    again = repo.runs.open(KEY)
    assert lost(again, made) == ("first", "second")
    made["second"] = write(again, "second", "second/file")
    assert lost(again, made) == ("first",)


def test_work_on_an_abandoned_branch_is_lost_despite_rounds(repo, run, made):
    run.publish()
    dropped = repo.runs.open(KEY)
    made["first"] = write(dropped, "first", "first/newer")
    dropped.abandon("dropped")
    assert lost(repo.runs.open(KEY), made) == ("first",)


def test_work_whose_publish_was_rolled_back_is_lost(repo, run, made):
    run.publish()
    repo.runs.rollback(KEY)
    again = repo.runs.open(KEY)
    assert lost(again, made) == ("first", "second")
    made = {name: write(again, name, f"{name}/file") for name in made}
    assert lost(again, made) == ()
    again.publish()
    assert lost(repo.runs.open(KEY), made) == ()


def test_work_reverted_by_hand_is_lost_until_that_is_reverted(repo, run, made):
    published = run.publish().commit
    reverted = repo.revert(published.id, "main", parent=1)
    again = repo.runs.open(KEY)
    assert lost(again, made) == ("first", "second")
    repo.revert(reverted.id, "main")
    assert lost(again, made) == ()


def test_an_attempt_begun_before_the_revert_lost_its_ground(repo, run, made):
    published = run.publish().commit
    again = repo.runs.open(KEY)
    made["second"] = write(again, "second", "second/other file")
    repo.revert(published.id, "main", parent=1)
    assert lost(again, made) == ("first",)


def test_a_step_that_was_taken_back_since_is_lost(run, made):
    run.undo_step("second")
    assert lost(run, made) == ("second",)


def test_published_into_another_branch_is_lost_here(repo, run, made):
    repo.create_branch("other", source="main")
    run.publish()
    assert lost(repo.runs.open(KEY, into="other"), made) == ("first", "second")


def test_there_are_no_steps_where_the_branch_is_gone(run, made):
    run.publish()
    assert joined(run) == {}
    assert lost(run, made) == ()
