"""Steps: several at the same time, and repeated steps."""

from dataclasses import replace

import pytest

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
    with run.step("idle") as step:
        pass
    assert (step.result, run.head) == (None, joined)
    with pytest.raises(ZeroDivisionError), run.step("fails") as step:
        step.put("c", b"1")
        step.commit("part one")
        raise ZeroDivisionError
    assert tree(run) == {"settled": "0", "a": "1", "b": "2"}
    assert [there.name for there in repo.branches(hidden=True)] == ["main", run.branch]


BESIDE = {
    "half files": "begin x A/one; begin y A/two; write x a=1; write y b=1; write x c=1; join x; "
    "of A a=1 c=1; write y d=1; join y; of A a=1 b=1 c=1 d=1",
    "one path": "begin x A/one; begin y A/two; write x a=1; write y a=2; join x; "
    "join y ! MergeConflictError step 'two'; of A a=1",
    "a newer try": "begin old A/one; write old a=1; begin new A/one; write old b=1 ! FencedError; "
    "join old ! FencedError; write new a=2; join new; join old ! FencedError; of A a=2",
    "a change of what a retry wrote": "work A/one s=1; begin x A/one; work A/fix s=2; join x; "
    "of A s=2",
}


@pytest.mark.parametrize("told", BESIDE.values(), ids=BESIDE)
def test_steps_work_beside_each_other(history, told):
    history.play(told)


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
