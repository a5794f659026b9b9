"""Rollback: one commit reverts a published run, and the result names the runs that read it."""

import pytest

from graveler.errors import (
    GravelerError,
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    ProtectedBranchError,
    RunNotFoundError,
)
from graveler.runs.record import RunHandle
from graveler.runs.state import RunState
from graveler.testing.faults import ProcessDied
from tests.harness.operations.rollback import KEY, done, publish, take_back
from tests.harness.worlds import FAULTS, interleave, struck_worlds, tree

BEHIND = "land A ! MergeConflictError the next attempt starts from 'main'; state A PARKED; main; "
HISTORIES = {
    "and published whole again": "A a=1 b=1; rollback A; main; A a=1; main a=1; state A PUBLISHED; "
    "rollback A; main",
    "the last of two first": "it: A a=1 b=1; A a=2; rollback it ! MergeConflictError; rollback A; "
    "main a=1 b=1; rollback it; main; state A ROLLED_BACK",
    "of rounds with files of other names": "zero: A 0=x; one: A 1=x; two: A 2=x; A 3=x; main 3=x; "
    "rollback A; main 2=x; A 4=x; main 4=x; rollback A; rollback two; main 1=x; last: A 5=x; "
    "main 5=x; rollback last; rollback one; rollback zero; main; A 6=x; main 6=x",
    "and undone": "it: A a=1; back: rollback A; revert back; main a=1; rollback it; main",
    "after a reset": "A a=1; reset main~1; rollback A ! RunStateError not in 'main' any more",
    "after a revert": "it: A a=1; back: revert it; rollback A; already; same back; "
    "state A ROLLED_BACK; reset main~2; rollback A ! RunStateError",
    "above an undone empty round": "it: A a=1; work A/; user b=1; land A; undo; rollback it; "
    "state A ROLLED_BACK",
    "later above an undone empty round": "it: A a=1; work A/; user b=1; land A; undo; user c=0; "
    "rollback it; state A ROLLED_BACK",
    "and equal bytes again": "work A a=s; work A/direct b=s; land A; rollback A; main; "
    "work A a=s; work A/direct b=s; land A; main a=s b=s",
    "and equal bytes of parked attempts": "work A a=s; work A/direct b=s; park A; land A; "
    "rollback A; main; work A a=s; work A/direct b=s; park A; land A; main a=s b=s",
    "below an attempt": "it: A a=s; work A a=s; rollback it; " + BEHIND + "A a=s; main a=s",
    "before an attempt works": "it: A a=s; work A/; rollback it; work A a=s; " + BEHIND,
    "by hand below an attempt": "it: A a=s; work A a=s; revert it; " + BEHIND,
    "by hand before an attempt works": "it: A a=s; work A/; revert it; work A a=s; " + BEHIND,
    "below a part of an hour": "A a=1; work A/other b=1; rollback A; "
    "land A ! MergeConflictError it would bring only a part of its files; main",
    "under a later publish": "it: A a=1; work A/other b=1; land A; "
    "rollback it ! MergeConflictError attempt 2 was published on top of that; main a=1 b=1; "
    "rollback A; rollback it; main",
    "of one target": "branch pr; A a=1; A@pr a=2; "
    "rollback A>pr7 ! RunStateError published nothing to 'pr7'; rollback A>main; main; pr a=2; "
    "state A PUBLISHED; rollback A; pr",
    "of a lost publish": "it: A a=1; A a=2; reset it; rollback A ! RunStateError graveler run "
    "rollback [0-9a-f]+; rollback it; rollback A ! RunStateError there is nothing to roll back",
}
EMPTY = "work A/; land A; already; "
EMPTY_ROUNDS = {
    others: f"A a=1; A b=2; {others}{EMPTY} back: rollback A; state A ROLLED_BACK; main a=1 {files}; "
    f"rollback A; already; same back; {EMPTY} rollback A; main {files}; {EMPTY}"
    "rollback A ! NoChangesError changed nothing"
    for others, files in (("", ""), ("C c=3; ", "c=3"))
}


@pytest.mark.parametrize("told", HISTORIES.values(), ids=HISTORIES)
def test_a_publish_is_rolled_back(history, told):
    history.play(told)


@pytest.mark.parametrize("told", EMPTY_ROUNDS.values(), ids=["alone", "beside others"])
def test_a_round_that_changed_nothing_is_passed_over(history, told):
    history.play(told)


def test_a_run_is_taken_back_in_one_commit_and_later_runs_stay(repo):
    pairs = {"hour": "2013-01-01T05:00Z", "late": "2013-01-01T04:00Z", "who": "me"}
    publish(repo, KEY, {"out/05": "5", "settled": None}, metadata=pairs)
    publish(repo, "hourly 06", {"out/06": "6"})
    head = repo.commit("main")
    done = repo.runs.rollback(KEY, metadata={"who": "you"})
    assert tree(repo.ref("main")) == {"settled": "0", "out/06": "6"}
    assert (repo.commit("main"), done.commit.parents) == (done.commit, (head.id,))
    assert done.commit.message.startswith(f"roll back run {KEY}")
    assert done.commit.metadata["graveler.rollback"] == KEY
    assert {key: done.commit.metadata[key] for key in pairs} == {**pairs, "who": "you"}
    assert (done.already, done.readers) == (False, ())
    record = repo.runs.get(KEY)
    assert done.record == record
    assert (record.state, record.rollback) == (RunState.ROLLED_BACK, done.commit.id)
    assert done.commit.id[:12] in record.reason
    publish(repo, KEY, {"a": "1"})
    record = repo.runs.get(KEY)
    assert (record.state, record.attempt, record.rollback) == (RunState.PUBLISHED, 2, "")


def test_later_changes_that_overlap_are_listed_and_nothing_moves(repo):
    publish(repo, KEY, {"a": "1", "b": "1", "c": "1"})
    publish(repo, "fix of a", {"a": "2"})
    repo.create_branch("manual").put("b", b"3")
    repo.branch("manual").commit("by hand")
    merged = repo.merge("manual", into="main").commit
    with pytest.raises(MergeConflictError) as caught:
        repo.runs.rollback(KEY)
    assert [conflict.path for conflict in caught.value.conflicts] == ["a", "b"]
    assert "'a' by run 'fix of a'" in str(caught.value)
    assert f"'b' by commit {merged.id[:12]}" in str(caught.value)
    assert repo.commit("main") == merged
    assert repo.runs.get(KEY).state is RunState.PUBLISHED


READERS = {
    "by listing": lambda run: list(run.list("raw/")),
    "by path": lambda run: run.get("raw/05/x"),
    "by ref": lambda run: run.view("main").get("raw/05/y"),
    "by uris": lambda run: run.uris("raw/05/"),
    "by view": lambda run: run.view().get("raw/05/y"),
    "told": lambda run: run.reads("raw/05/"),
    "elsewhere": lambda run: run.get("settled"),
    "nothing": lambda run: None,
}


def test_runs_that_read_what_it_wrote_are_named_and_no_others(repo):
    def keys(records):
        return [record.key for record in records]

    early = repo.runs.open("early")
    early.exists("raw/05/x")
    early.put("out", b"1")
    publish(repo, KEY, {"raw/05/x": "5", "raw/05/y": "5"})
    early.commit("out")
    early.publish()
    for key, read in READERS.items():
        with repo.run(key) as run:
            read(run)
            run.put(f"out/{key}", b"1")
    parked = repo.runs.open("parked")
    with parked.step("one") as step:
        step.get("raw/05/x")
        step.put("out/parked", b"1")
    parked.park()
    publish(repo, "mended", {"raw/05/x": "6"})
    with repo.run("reads the mended one", into="main") as run:
        run.get("raw/05/x")
        run.put("out/mended", b"1")
    repo.runs.open("has not committed").get("raw/05/x")
    # raw/05/y is in the same folder
    named = sorted([*READERS, "parked", "reads the mended one"])
    named = [key for key in named if key not in ("elsewhere", "nothing")]
    assert keys(repo.runs.readers(KEY)) == named
    assert keys(repo.runs.readers("mended")) == ["reads the mended one"]
    assert keys(repo.runs.rollback("mended").readers) == ["reads the mended one"]
    assert keys(repo.runs.rollback(KEY).readers) == named


def test_readers_are_known_of_a_run_whose_target_is_gone(repo):
    repo.create_branch("side")
    publish(repo, KEY, {"raw/x": "1"}, into="side")
    with repo.run("reader", into="side") as run:
        run.get("raw/x")
        run.put("y", b"1")
    repo.delete_branch("side")
    assert [record.key for record in repo.runs.readers(KEY)] == ["reader"]


def test_what_is_no_published_run_is_refused(repo):
    with pytest.raises(RunNotFoundError, match="graveler revert"):
        repo.runs.rollback(repo.commit("main").id)
    run = repo.runs.open(KEY)
    run.publish()
    with pytest.raises(NoChangesError, match="changed nothing"):
        repo.runs.rollback(KEY)
    with pytest.raises(InvalidInputError):
        repo.runs.rollback(KEY, metadata={"graveler.run": "x"})
    publish(repo, KEY, {"a": "1"})
    repo.protection.add("main", ["revert"])
    with pytest.raises(ProtectedBranchError):
        repo.runs.rollback(KEY)
    assert repo.runs.get(KEY).state is RunState.PUBLISHED


def persist(repo):
    while True:
        try:
            return take_back(repo)
        except (GravelerError, ProcessDied):
            continue


@pytest.mark.parametrize("operate", [take_back, persist])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_rollback_with_any_fault_is_done_by_a_second_call(fault, operate):
    for world, what, failed in struck_worlds(fault, done, operate):
        assert failed is None or operate is take_back, what
        repo = world.repo()
        now = tree(repo.ref("main"))
        assert now in ({"settled": "0"}, {"settled": "0", "a": "1"}), what
        if repo.runs.get(KEY).state is RunState.ROLLED_BACK:
            assert "a" not in now, what
        repo.runs.rollback(KEY)
        assert tree(repo.ref("main")) == {"settled": "0"}, what
        (commit,) = [one for one in repo.log("main") if "graveler.rollback" in one.metadata]
        assert repo.runs.get(KEY).rollback == commit.id, what
        publish(world.repo(), KEY, {"a": "2"})
        assert tree(repo.ref("main")) == {"settled": "0", "a": "2"}, what


def test_two_at_once_make_one_commit():
    def check(world, one, other):
        repo = world.repo(scripted=False)
        assert one.commit == other.commit == repo.commit("main")
        assert [one.already, other.already].count(False) == 1
        assert repo.runs.get(KEY).state is RunState.ROLLED_BACK

    interleave(done, take_back, take_back, check, least=4)


def test_a_new_attempt_beside_a_rollback_goes_on_or_starts_anew():
    def check(world, rolled_back, run):
        repo = world.repo(scripted=False)
        record = repo.runs.get(KEY)
        assert (record.state, record.attempt) == (RunState.OPEN, 2)
        assert record.rollback == rolled_back.commit.id
        run.put("b", b"1")
        run.commit("b")
        try:
            run.publish()
        except MergeConflictError:  # the run was forked before the rollback
            publish(repo, KEY, {"b": "1"})
        assert tree(repo.ref("main")) == {"settled": "0", "b": "1"}

    interleave(done, take_back, lambda repo: repo.runs.open(KEY), check, least=4)


def test_a_publish_beside_a_rollback_is_never_left_as_a_half():
    """The attempt was forked from the reverted publish. Its one file is only a part of an hour."""
    handles: list[RunHandle] = []

    def prepare(repo):
        done(repo)
        run = repo.runs.open(KEY)
        with run.step("other") as step:
            step.put("b", b"1")
        handles[:] = [run.handle]

    def check(world, rolled_back, published):
        repo = world.repo(scripted=False)
        now = tree(repo.ref("main"))
        if isinstance(published, MergeConflictError):
            assert now == {"settled": "0"}
        else:
            assert rolled_back.publish.commit == published.commit.id
            assert now == {"settled": "0", "a": "1"}

    def publishes(repo):
        return repo.runs.attach(handles[0]).publish()

    interleave(prepare, take_back, publishes, check, least=4)
