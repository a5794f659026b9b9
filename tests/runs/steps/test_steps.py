"""Steps: several at the same time, and repeated steps."""

from dataclasses import replace

import pytest

from graveler.errors import FencedError, MergeConflictError

KEY = "hourly 2013-01-01T05:00"


@pytest.fixture
def run(repo):
    return repo.runs.open(KEY)


def test_a_step_joins_the_run_in_one_commit_that_names_it(repo, run, tree):
    head = run.head
    with run.step("ingest", try_number=3, metadata={"rows": "7"}) as step:
        step.put("a", b"1")
        step.commit("part one")
        step.put("b", b"2")
        assert step.get("a") == b"1"
        assert tree(run) == {"settled": "0"}  # not joined yet
    joined = run.head
    assert joined == step.result
    assert joined.parents == (head.id,)
    named = {name: joined.metadata[name] for name in ("graveler.step", "graveler.try", "rows")}
    assert named == {"graveler.step": "ingest", "graveler.try": "3", "rows": "7"}
    assert tree(run) == {"settled": "0", "a": "1", "b": "2"}
    assert [there.name for there in repo.branches(hidden=True)] == ["main", run.branch]


def test_a_step_that_fails_leaves_nothing(repo, run, tree):
    with pytest.raises(ZeroDivisionError), run.step("ingest") as step:
        step.put("a", b"1")
        step.commit("part one")
        raise ZeroDivisionError
    assert tree(run) == {"settled": "0"}
    assert [there.name for there in repo.branches(hidden=True)] == ["main", run.branch]


def test_concurrent_steps_never_commit_each_others_half_files(run, tree):
    one, two = run.step("one"), run.step("two")
    one.put("one/a", b"1")
    two.put("two/a", b"2")
    one.put("one/b", b"1")
    one.join()
    assert tree(run) == {"settled": "0", "one/a": "1", "one/b": "1"}
    two.put("two/b", b"2")
    two.join()
    assert sorted(tree(run)) == ["one/a", "one/b", "settled", "two/a", "two/b"]


def test_a_step_that_runs_again_replaces_its_earlier_rows(run, tree):
    with run.step("write", try_number=1) as step:
        step.put("out/part-aaa", b"rows")
        step.put("out/same", b"same")
        step.put("settled", b"1")
    with run.step("other") as step:
        step.put("other", b"kept")
    with run.step("write", try_number=2) as step:
        assert tree(step) == {"settled": "0", "other": "kept"}  # as if the step had never run
        step.put("out/part-bbb", b"rows")
        step.put("out/same", b"same")
    assert tree(run) == {
        "settled": "0",
        "other": "kept",
        "out/part-bbb": "rows",
        "out/same": "same",
    }
    with run.step("write", try_number=3) as step:
        step.put("out/part-ccc", b"rows")
    assert tree(run) == {"settled": "0", "other": "kept", "out/part-ccc": "rows"}


def test_a_retry_does_not_touch_what_another_step_changed_since(run, tree):
    with run.step("write") as step:
        step.put("shared", b"first")
        step.put("own", b"first")
    with run.step("fix") as step:
        step.put("shared", b"fixed")
    with run.step("write", try_number=2) as step:
        assert step.get("shared") == b"fixed"
        step.put("own2", b"second")
    assert tree(run) == {"settled": "0", "shared": "fixed", "own2": "second"}


def test_a_change_made_while_the_retry_runs_stays_too(run, tree):
    with run.step("write") as step:
        step.put("shared", b"first")
    retry = run.step("write", try_number=2)
    with run.step("fix") as step:
        step.put("shared", b"fixed")
    retry.join()
    assert tree(run) == {"settled": "0", "shared": "fixed"}


def test_two_steps_that_change_one_path_differently_conflict(run, tree):
    one, two = run.step("one"), run.step("two")
    one.put("a", b"1")
    two.put("a", b"2")
    one.join()
    with pytest.raises(MergeConflictError, match="step 'two'"):
        two.join()
    assert tree(run) == {"settled": "0", "a": "1"}


def test_a_newer_try_fences_the_older(run, tree):
    old = run.step("write")
    old.put("a", b"old")
    new = run.step("write", try_number=2)
    with pytest.raises(FencedError):
        old.put("b", b"old")
    with pytest.raises(FencedError):
        old.join()
    new.put("a", b"new")
    new.join()
    with pytest.raises(FencedError):
        old.join()
    assert tree(run) == {"settled": "0", "a": "new"}


def test_a_try_that_joined_beside_its_successor_is_undone(run, tree):
    """The older try passes its fence check before the newer try is opened, and lands late."""
    old = run.step("write")
    old.put("part-old", b"rows")
    done = old.commit("all done but the join")
    new = run.step("write", try_number=2)
    new.put("part-new", b"rows")
    # the operation of a join in flight at this moment
    refs = run.repository.refs
    record, predicate = refs.branches.get_for_update(run.branch)
    late = refs.commits.add(
        metarange=done.metarange,
        parents=(record.commit_id,),
        message="late",
        committer="",
        created=run.repository.clock.now(),
        metadata={
            "graveler.run": KEY,
            "graveler.step": "write",
            "graveler.step_number": "1",
            "graveler.step_base": record.commit_id,
            "graveler.step_head": done.id,
        },
    )

    refs.branches.replace(replace(record, commit_id=late.id), predicate)
    assert "part-old" in tree(run)
    new.join()
    assert tree(run) == {"settled": "0", "part-new": "rows"}


def test_a_retry_in_a_later_attempt_replaces_too(repo, run, tree):
    with run.step("write") as step:
        step.put("out/part-aaa", b"rows")
    run.park("the next step failed")
    again = repo.runs.open(KEY)
    with again.step("write") as step:
        step.put("out/part-bbb", b"rows")
    again.publish()
    assert tree(repo.ref("main")) == {"settled": "0", "out/part-bbb": "rows"}


def test_an_hour_run_again_after_its_publish_never_doubles_rows(repo, run, tree):
    with run.step("write") as step:
        step.put("out/part-aaa", b"rows")
    run.publish()
    with repo.run("another hour") as other:
        other.put("other", b"kept")
    for part in ("out/part-bbb", "out/part-ccc"):
        again = repo.runs.open(KEY)
        with again.step("write") as step:
            step.put(part, b"rows")
        again.publish()
        assert tree(repo.ref("main")) == {"settled": "0", "other": "kept", part: "rows"}


def test_a_step_that_writes_nothing_makes_no_commit(run):
    head = run.head
    with run.step("idle") as step:
        pass
    assert step.result is None
    assert run.head == head


def test_a_retry_that_writes_nothing_takes_its_earlier_work_back(run, tree):
    with run.step("write") as step:
        step.put("a", b"1")
    with run.step("write", try_number=2):
        pass
    assert tree(run) == {"settled": "0"}


def test_a_round_without_a_step_keeps_what_that_step_wrote(repo, tree):
    for name, path in (("one", "a"), ("two", "b"), ("three", "c"), ("one", "d"), ("two", "e")):
        with repo.run("again") as run, run.step(name) as step:
            step.put(path, b"1")
    assert tree(repo.ref("main")) == {"settled": "0", "c": "1", "d": "1", "e": "1"}
