"""A run from its opening to its end: what main shows, and what the next attempt finds."""

import sys
from contextvars import Context

import pytest

from graveler.errors import (
    FencedError,
    GateFailedError,
    RunNotFoundError,
)
from graveler.gates import gate
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


def test_a_failed_run_never_touches_main_and_is_resumed(repo, tree):
    before = repo.commit("main")
    with pytest.raises(ZeroDivisionError), repo.run(KEY) as run:
        with run.step("ingest") as step:
            step.put("input/a", b"1")
        run.put("half", b"written")
        raise ZeroDivisionError("boom")
    assert repo.commit("main") == before
    record = repo.runs.get(KEY)
    assert (record.state, record.reason) == (RunState.PARKED, "ZeroDivisionError: boom")
    assert tree(repo.ref(record.branch)) == {"settled": "0", "input/a": "1"}
    assert list(repo.branch(record.branch).uncommitted()) == []
    assert [there.name for there in repo.branches()] == ["main"]  # the parked branch is hidden
    with repo.run(KEY) as run:
        assert run.attempt == 2
        assert tree(run) == {"settled": "0", "input/a": "1"}
        run.put("output/b", b"2")
    assert tree(repo.ref("main")) == {"settled": "0", "input/a": "1", "output/b": "2"}


@pytest.mark.parametrize("end", ["fails", "is refused", "is silent"])
def test_a_dropped_run_is_never_resumed(repo, tree, end):
    if end == "fails":
        with pytest.raises(ZeroDivisionError), repo.run(KEY, on_failure="drop") as run:
            run.put("a", b"1")
            run.commit("a")
            raise ZeroDivisionError
    else:
        run = repo.runs.open(KEY, on_failure="drop")
        run.put("a", b"1")
        run.commit("a")
    if end == "is refused":
        with pytest.raises(GateFailedError):
            run.publish([lambda _: "no"])
        assert run.state is RunState.PARKED
        assert run.close().state is RunState.REAPED
    if end != "is silent":
        assert repo.runs.get(KEY).state is RunState.REAPED
        assert [there.name for there in repo.branches(hidden=True)] == ["main"]
    again = repo.runs.open(KEY)
    assert not again.record.resumed
    assert tree(again) == {"settled": "0"}


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


@pytest.mark.parametrize(("end", "state"), [("park", "PARKED"), ("abandon", "REAPED")])
def test_a_run_is_ended_from_outside_only_if_it_is_the_one_meant(repo, end, state):
    call = getattr(repo.runs, end)
    repo.runs.open_or_attach(KEY, owner="first")
    run = repo.runs.open_or_attach(KEY, owner="second")
    for meant in ({"owner": "first"}, {"attempt": 1}, {"owner": "second", "attempt": 3}):
        with pytest.raises(FencedError):
            call(KEY, **meant)
    assert run.state is RunState.OPEN
    ended = call(KEY, owner="second", attempt=2, reason="it failed")
    assert (ended.state, ended.reason, call(KEY).state) == (state, "it failed", state)
    with pytest.raises(RunNotFoundError):
        call("unknown")


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
