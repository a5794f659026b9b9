"""Gates judge a run without changes like any other run."""

import pytest

from graveler import checks, gate
from graveler.errors import GateFailedError
from graveler.runs.state import RunState
from tests.harness.operations.rollback import KEY, publish

HOUR = {"hour": "2013-01-01T05:00Z"}


@gate(reads="run")
def no_empty_hour(candidate):
    assert candidate.has_below(candidate.run.hour_prefix("out")), "the hour is empty"


def write_nothing(run):
    pass


def join_an_empty_step(run):
    with run.step("work"):
        pass


def write_what_is_there(run):
    with run.step("work") as step:
        step.put("settled", b"0")


@pytest.mark.parametrize("work", [write_nothing, join_an_empty_step, write_what_is_there])
@pytest.mark.parametrize("check", [no_empty_hour, checks.row_count("out/")])
def test_an_empty_hour_is_refused(repo, work, check):
    head = repo.commit("main")
    with pytest.raises(GateFailedError), repo.run(KEY, gates=[check], metadata=HOUR) as run:
        work(run)
    record = repo.runs.get(KEY)
    assert (record.state, record.publishes) == (RunState.PARKED, ())
    assert [verdict.passed for verdict in record.verdicts] == [False]
    assert repo.commit("main") == head


def test_gates_that_the_branch_requires_judge_it(repo):
    repo.gates.require("main", checks.row_count("out/"))
    with pytest.raises(GateFailedError), repo.run(KEY):
        pass
    repo.gates.drop("main")
    with repo.run(KEY) as run:
        pass
    assert run.result.already


def test_the_gates_judge_the_target_as_a_commit_of_the_run(repo):
    publish(repo, "before", {"out/2013/01/01/05:00/a": "1"})
    head = repo.commit("main")
    seen = []

    @gate(reads="anything")
    def look(candidate):
        seen.append((candidate.commit.message, list(candidate.changes()), candidate.target.id))

    with repo.run(KEY, gates=[look, no_empty_hour], metadata=HOUR) as run:
        pass
    assert seen == [(f"run {KEY}", [], head.id)]
    assert (run.result.already, run.result.commit) == (True, head)
    assert [verdict.gate for verdict in run.result.verdicts] == ["look", "no_empty_hour"]
    assert repo.commit("main") == head
