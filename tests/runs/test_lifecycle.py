"""A run from its opening to its end: what main shows, and what the next attempt finds."""

import pickle
import sys
from contextvars import Context

import pytest

from graveler.errors import (
    FencedError,
    GateFailedError,
    InvalidInputError,
    MergeConflictError,
    RefNotFoundError,
    RunNotFoundError,
    RunStateError,
    StateError,
)
from graveler.gates import gate
from graveler.runs.record import RunHandle
from graveler.runs.state import RunState

KEY = "hourly 2013-01-01T05:00"


def test_main_moves_once_when_the_block_ends(repo, tree):
    before = repo.commit("main")
    with repo.run(KEY, metadata={"hour": "05"}) as run:
        run.put("input/a", b"1")
        run.commit("first")
        run.put("output/b", b"2")
        assert repo.commit("main") == before
        assert tree(run) == {"settled": "0", "input/a": "1", "output/b": "2"}
    merged = repo.commit("main")
    assert merged.parents[0] == before.id
    assert merged.metadata["graveler.run"] == KEY
    assert merged.metadata["hour"] == "05"
    assert run.result.commit == merged
    assert tree(repo.ref("main")) == {"settled": "0", "input/a": "1", "output/b": "2"}
    assert [record.name for record in repo.branches(hidden=True)] == ["main"]
    record = repo.runs.get(KEY)
    assert (record.state, record.attempt, record.commit) == ("PUBLISHED", 1, merged.id)


def test_a_failed_run_never_touches_main_and_is_parked(repo, tree):
    before = repo.commit("main")
    with pytest.raises(ZeroDivisionError), repo.run(KEY) as run:
        run.put("a", b"1")
        run.commit("kept")
        run.put("half", b"written")
        raise ZeroDivisionError("boom")
    assert repo.commit("main") == before
    record = repo.runs.get(KEY)
    assert record.state is RunState.PARKED
    assert record.reason == "ZeroDivisionError: boom"
    assert tree(repo.ref(record.branch)) == {"settled": "0", "a": "1"}
    assert list(repo.branch(record.branch).uncommitted()) == []
    assert [there.name for there in repo.branches()] == ["main"]  # the parked branch is hidden


def test_the_next_attempt_goes_on_from_what_was_committed(repo, tree):
    with pytest.raises(ZeroDivisionError), repo.run(KEY) as run:
        with run.step("ingest") as step:
            step.put("input/a", b"1")
        raise ZeroDivisionError
    with repo.run(KEY) as run:
        assert run.attempt == 2
        assert tree(run) == {"settled": "0", "input/a": "1"}
        run.put("output/b", b"2")
    assert tree(repo.ref("main")) == {"settled": "0", "input/a": "1", "output/b": "2"}


def test_a_dropped_run_leaves_its_record_only(repo, tree):
    with pytest.raises(ZeroDivisionError), repo.run(KEY, on_failure="drop") as run:
        run.put("a", b"1")
        run.commit("kept?")
        raise ZeroDivisionError
    assert repo.runs.get(KEY).state is RunState.REAPED
    assert [there.name for there in repo.branches(hidden=True)] == ["main"]
    with repo.run(KEY) as run:
        assert tree(run) == {"settled": "0"}
    with pytest.raises(InvalidInputError, match="on_failure"), repo.run("x", on_failure="cry"):
        pass


@pytest.mark.parametrize("end", ["refused", "silent"])
def test_a_dropped_run_is_never_resumed(repo, tree, end):
    run = repo.runs.open(KEY, on_failure="drop")
    run.put("a", b"1")
    run.commit("a")
    if end == "refused":
        with pytest.raises(GateFailedError):
            run.publish([lambda _: "no"])
    again = repo.runs.open(KEY)
    assert not again.record.resumed
    assert tree(again) == {"settled": "0"}


def test_a_published_run_run_again_starts_from_the_present_main(repo, tree):
    with repo.run(KEY) as run:
        run.put("a", b"1")
    with repo.run("another") as run:
        run.put("b", b"2")
    with repo.run(KEY) as run:
        assert run.attempt == 2
        assert tree(run) == {"settled": "0", "a": "1", "b": "2"}
        run.put("a", b"better")
    assert tree(repo.ref("main")) == {"settled": "0", "a": "better", "b": "2"}


def test_a_run_without_changes_is_published_without_a_commit(repo):
    before = repo.commit("main")
    with repo.run(KEY) as run:
        pass
    assert run.result.already
    assert repo.commit("main") == before
    assert run.state is RunState.PUBLISHED


def test_opening_fences_every_earlier_attempt(repo, tree):
    old = repo.runs.open(KEY)
    old.put("a", b"old")
    step = old.step("slow")
    new = repo.runs.open(KEY)
    assert (old.attempt, new.attempt) == (1, 2)
    for stale in (
        lambda: old.put("a", b"zombie"),
        lambda: old.commit("zombie"),
        lambda: old.delete("settled"),
        lambda: old.step("another"),
        lambda: step.put("a", b"zombie"),
        step.join,
        old.publish,
        old.park,
    ):
        with pytest.raises(FencedError):
            stale()
    assert tree(new) == {"settled": "0"}  # staged writes of the first attempt are gone
    new.put("a", b"new")
    new.commit_staged()
    new.publish()
    assert tree(repo.ref("main")) == {"settled": "0", "a": "new"}
    with pytest.raises(FencedError):
        old.put("a", b"late zombie")


def test_nobody_writes_to_a_runs_branch_but_the_run(repo):
    run = repo.runs.open(KEY)
    with pytest.raises(FencedError, match="belongs to a run"):
        repo.branch(run.branch).put("a", b"1")
    with pytest.raises(FencedError, match="belongs to a run"):
        repo.delete_branch(run.branch)


def test_a_parked_run_takes_no_writes_until_it_is_opened_again(repo):
    run = repo.runs.open(KEY)
    run.put("a", b"1")
    run.commit_staged()
    assert run.park("lunch").reason == "lunch"
    assert run.park("again").state is RunState.PARKED  # orchestrators repeat calls
    with pytest.raises(FencedError):
        run.put("b", b"1")
    with pytest.raises(RunStateError, match="PARKED"):
        run.publish()


def test_publishing_twice_answers_with_the_same_commit(repo):
    run = repo.runs.open(KEY)
    run.put("a", b"1")
    run.commit_staged()
    first = run.publish()
    again = run.publish()
    assert not first.already
    assert again.already
    assert again.commit == first.commit
    assert run.park("late teardown").state is RunState.PUBLISHED
    with pytest.raises(RunStateError):
        run.abandon()


def test_publish_takes_commits_only(repo):
    run = repo.runs.open(KEY)
    run.put("a", b"1")
    with pytest.raises(StateError, match="not committed"):
        run.publish()
    run.reset()
    run.publish()


def test_a_handle_travels_as_text(repo, lake, tree):
    run = repo.runs.open(KEY)
    text = run.handle.to_json()
    elsewhere = lake.repository("flights").runs.attach(text)
    elsewhere.put("a", b"1")
    elsewhere.commit_staged()
    assert tree(run) == {"settled": "0", "a": "1"}
    assert RunHandle.from_json(text) == run.handle == pickle.loads(pickle.dumps(run.handle))
    with pytest.raises(InvalidInputError, match="run handle"):
        repo.runs.attach('{"key": "x"}')
    with pytest.raises(InvalidInputError, match="repository"):
        lake.create_repository("trains").runs.attach(text)


def test_runs_are_found_and_listed(repo):
    with pytest.raises(RunNotFoundError, match="unknown"):
        repo.runs.get("unknown")
    repo.runs.open("a/b: any ~text^ at@all é")
    repo.runs.open("second").park()
    assert [record.state for record in repo.runs.list("PARKED")] == ["PARKED"]
    assert {record.key for record in repo.runs.list()} == {"a/b: any ~text^ at@all é", "second"}
    with pytest.raises(InvalidInputError, match="empty"):
        repo.runs.open("  ")
    with pytest.raises(RefNotFoundError):
        repo.runs.open("third", into="nowhere")
    with pytest.raises(InvalidInputError, match="publishes to"):
        repo.create_branch("other")
        repo.runs.open("second", into="other")


def test_two_runs_side_by_side_both_land(repo, tree):
    one, two = repo.runs.open("one"), repo.runs.open("two")
    one.put("one", b"1")
    two.put("two", b"2")
    one.commit_staged()
    two.commit_staged()
    one.publish()
    two.publish()
    assert tree(repo.ref("main")) == {"settled": "0", "one": "1", "two": "2"}


def test_a_true_conflict_parks_the_run_and_says_where(repo, tree):
    one, two = repo.runs.open("one"), repo.runs.open("two")
    for run in (one, two):
        run.put("same", run.key.encode())
        run.commit_staged()
    one.publish()
    with pytest.raises(MergeConflictError) as refused:
        two.publish()
    assert [conflict.path for conflict in refused.value.conflicts] == ["same"]
    assert two.state is RunState.PARKED
    assert tree(repo.ref("main"))["same"] == "one"
    again = repo.runs.open("two")
    again.publish(strategy="source-wins")
    assert tree(repo.ref("main"))["same"] == "two"


def test_a_gate_judges_what_main_would_become(repo, tree):
    seen = {}

    @gate(reads="run")
    def look(candidate):
        seen["tree"] = tree(candidate)
        seen["changes"] = [change.path for change in candidate.changes()]
        seen["before"] = tree(candidate.before)
        seen["run"] = (candidate.run.key, candidate.into, dict(candidate.run.metadata))

    run = repo.runs.open(KEY, metadata={"hour": "5"})
    run.put("mine", b"1")
    run.commit_staged()
    with repo.run("meanwhile") as other:
        other.put("theirs", b"2")
    result = run.publish([look])
    assert seen["tree"] == {"settled": "0", "mine": "1", "theirs": "2"} == tree(repo.ref("main"))
    assert seen["changes"] == ["mine"]
    assert seen["before"] == {"settled": "0", "theirs": "2"}
    assert seen["run"] == (KEY, "main", {"hour": "5"})
    assert [(verdict.gate, verdict.passed) for verdict in result.verdicts] == [("look", True)]
    assert result.commit.metadata["graveler.gates"] == "look"


def died(candidate):
    raise OSError("the disk of the gate")


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (lambda _: False, "it returned False"),
        (lambda _: "too few rows", "too few rows"),
        (lambda candidate: (_ for _ in ()).throw(AssertionError("3 of 5")), "3 of 5"),
        (died, "OSError: the disk of the gate"),
    ],
    ids=["false", "reason", "assertion", "died"],
)
def test_a_refusal_leaves_main_and_parks_the_run(repo, check, reason):
    before = repo.commit("main")
    with pytest.raises(GateFailedError, match=reason) as refused:
        with repo.run(KEY, gates=[gate("strict")(check), gate("fine")(lambda _: None)]) as run:
            run.put("a", b"1")
    assert repo.commit("main") == before
    assert [(v.gate, v.passed, v.reason) for v in refused.value.verdicts] == [
        ("strict", False, reason),
        ("fine", True, ""),
    ]
    record = repo.runs.get(KEY)
    assert record.state is RunState.PARKED
    assert record.verdicts == refused.value.verdicts
    assert reason in record.reason


def test_a_warning_is_kept_and_lets_the_run_through(repo):
    with repo.run(KEY, gates=[gate("soft", severity="warn")(lambda _: "hm")]) as run:
        run.put("a", b"1")
    assert [(v.passed, v.reason) for v in run.record.verdicts] == [(False, "hm")]
    assert run.state is RunState.PUBLISHED


def test_what_was_judged_is_not_judged_twice(repo):
    calls = []

    @gate(prefix="a/")
    def narrow(candidate):
        return candidate.exists("a/1")

    @gate
    def wide(candidate):
        calls.append("wide")
        if len(calls) == 1:  # main moves during the gates
            Context().run(somebody_else)

    def somebody_else():
        with repo.run("meanwhile") as other:
            other.put("b/1", b"2")

    with repo.run(KEY, gates=[narrow, wide]) as run:
        run.put("a/1", b"1")
    assert calls == ["wide", "wide"]
    assert repo.gates.judgement("main").reused == ("narrow",)
    assert run.result.commit.id == repo.commit("main").id


def test_a_gate_that_died_is_asked_again(repo):
    answers = [OSError("once"), None]

    @gate
    def flaky(candidate):
        answer = answers.pop(0)
        if answer:
            raise answer

    with pytest.raises(GateFailedError), repo.run(KEY, gates=[flaky]) as run:
        with run.step("work") as step:
            step.put("a", b"1")
    with repo.run(KEY, gates=[flaky]):
        pass
    assert repo.branch("main").exists("a")
    assert answers == []


def test_gates_of_one_name_are_refused(repo):
    with pytest.raises(InvalidInputError, match="names must differ"):
        with repo.run(KEY, gates=[gate("x")(lambda _: None), gate("x")(lambda _: None)]) as run:
            run.put("a", b"1")
    with pytest.raises(InvalidInputError, match="severity"):
        gate("x", severity="loud")(lambda _: None)


def test_a_run_is_ended_from_outside_only_if_it_is_the_one_meant(repo):
    for end, state in (("park", RunState.PARKED), ("abandon", RunState.REAPED)):
        key = f"to {end}"
        call = getattr(repo.runs, end)
        repo.runs.open_or_attach(key, owner="first")
        run = repo.runs.open_or_attach(key, owner="second")
        for meant in ({"owner": "first"}, {"attempt": 1}, {"owner": "second", "attempt": 3}):
            with pytest.raises(FencedError):
                call(key, **meant)
        assert run.state is RunState.OPEN
        ended = call(key, owner="second", attempt=2, reason="it failed")
        assert (ended.state, ended.reason) == (state, "it failed")
        assert call(key).state is state
        with pytest.raises(RunNotFoundError):
            call("unknown")


def test_closing_ends_an_attempt_as_its_opener_wished(repo):
    for on_failure, state in (("park", RunState.PARKED), ("drop", RunState.REAPED)):
        run = repo.runs.open(on_failure, on_failure=on_failure)
        run.put(on_failure, b"1")
        run.commit("a")
        for _ in range(2):
            closed = run.close("why")
            assert (closed.state, closed.reason) == (state, "why")
        again = repo.runs.open(on_failure)
        assert run.close().attempt == 2  # the newer attempt, which continues
        assert again.state is RunState.OPEN
        again.publish()
        assert again.close().state is RunState.PUBLISHED


@pytest.fixture
def other_hour(repo):
    def publish():
        with repo.run("hourly 2013-01-01T04:00") as run:
            run.put("input/04", repo.commit("main").id.encode())

    return publish


@pytest.mark.parametrize(("code", "warned"), [(0, True), (None, True), (1, False)])
def test_a_run_that_is_left_by_an_exit_warns(repo, caplog, code, warned):
    with pytest.raises(SystemExit), repo.run(KEY) as run:
        run.put("a", b"1")
        sys.exit(code)
    assert repo.runs.get(KEY).state is RunState.PARKED
    assert ("is not published" in caplog.text) is warned


@pytest.mark.parametrize("end", ["park", "nothing"])
def test_an_attempt_with_nothing_to_resume_starts_anew(repo, tree, caplog, other_hour, end):
    run = repo.runs.open(KEY)
    with pytest.raises(ZeroDivisionError), run.step("work") as step:
        step.put("output/a", b"1")
        _ = 1 / 0
    run.put("staged", b"1")
    if end == "park":
        run.park("failed")
    other_hour()
    again = repo.runs.open(KEY)
    assert sorted(tree(again)) == ["input/04", "settled"]
    assert again.record.base == repo.commit("main").id
    assert not caplog.records
    with again.step("work") as step:
        step.put("output/a", step.get("input/04"))
    again.publish()
    assert sorted(tree(repo.ref("main"))) == ["input/04", "output/a", "settled"]


def test_a_resumed_attempt_reads_its_target_as_it_was(repo, tree, caplog, other_hour):
    run = repo.runs.open(KEY)
    run.put("input/a", b"1")
    run.commit("first")
    run.close("failed")
    base = repo.commit("main").id
    repo.runs.open(KEY).close("failed again")
    assert not caplog.records  # main has not moved

    other_hour()
    resumed = repo.runs.open(KEY)
    assert tree(resumed) == {"settled": "0", "input/a": "1"}
    (said,) = caplog.records
    assert (said.name, said.levelname) == ("graveler.runs.opener", "WARNING")
    told = said.getMessage()
    assert f"attempt 3 resumes a branch that was forked from main at {base[:12]}" in told
    assert f"it is at {repo.commit('main').id[:12]} now" in told
    assert f"graveler run abandon '{KEY}'" in told

    repo.runs.abandon(KEY)
    fresh = repo.runs.open(KEY)
    assert set(tree(fresh)) == {"settled", "input/04"}
    assert len(caplog.records) == 1


def test_the_process_of_an_owner_that_opens_is_told_to_resume(repo, caplog, other_hour):
    run = repo.runs.open_or_attach(KEY, owner="first")
    run.put("input/a", b"1")
    run.commit("first")
    run.close("failed")
    other_hour()
    for _ in range(3):
        repo.runs.open_or_attach(KEY, owner="second")
    (said,) = caplog.records
    assert "attempt 2 resumes a branch" in said.getMessage()
