"""Publishing: two runs that are wrong together, kept refusals, and the order of attempts."""

import pytest

from graveler.errors import (
    GateFailedError,
    GravelerError,
    MergeConflictError,
    PermissionDeniedError,
    ProtectedBranchError,
)
from graveler.gates import gate
from graveler.runs.record import RunHandle
from graveler.runs.state import RunState
from tests.harness.worlds import interleave
from tests.harness.worlds import tree as tree_of

KEY = "hourly 05"


@gate
def one_capital(candidate):
    capitals = [entry.path for entry in candidate.entries("capitals/")]
    return True if len(capitals) == 1 else f"{len(capitals)} capitals: {', '.join(capitals)}"


HANDLES: list[RunHandle] = []


def two_capitals(repo):
    HANDLES.clear()
    for key in ("bonn", "berlin"):
        run = repo.runs.open(key)
        run.put(f"capitals/{key}", b"1")
        run.commit("a capital")
        HANDLES.append(run.handle)


def test_of_two_simultaneous_publishers_one_is_always_stopped():
    """A head that was judged before main moved is judged again."""

    def publish(number):
        return lambda repo: repo.runs.attach(HANDLES[number]).publish([one_capital])

    def check(world, *outcomes):
        refused = [outcome for outcome in outcomes if isinstance(outcome, GravelerError)]
        assert [type(error) for error in refused] == [GateFailedError]
        repo = world.repo(scripted=False)
        assert len(tree_of(repo.ref("main"))) == 1
        states = sorted(str(record.state) for record in repo.runs.list())
        assert states == ["PARKED", "PUBLISHED"]

    interleave(two_capitals, publish(0), publish(1), check, least=10)


def test_refusal_reasons_are_kept_short_newest_last_and_bounded(repo):
    @gate(reads="attempt")
    def never(candidate):
        return f"attempt {candidate.run.attempt} is wrong" + "x" * 1_000_000

    warns = gate("warns", severity="warn")(lambda candidate: "a warning refuses nothing")
    for number in range(1, 23):
        run = repo.runs.open(KEY)
        run.put(f"{number}", b"1")
        run.commit("x")
        with pytest.raises(GateFailedError):
            run.publish([never, warns])
    refusals = repo.runs.get(KEY).refusals
    assert len(refusals) == 20
    assert {refusal.gates for refusal in refusals} == {("never",)}
    for number, refusal in enumerate(refusals, 3):
        assert f"attempt {number} is wrong" in refusal.reason
        assert len(refusal.reason) <= 2000
    assert list(refusals) == sorted(refusals, key=lambda refusal: refusal.at)
    assert len(repo.runs.get(KEY).reason) <= 2000
    run = repo.runs.open(KEY)
    run.publish()
    assert run.record.refusals == refusals


def test_conflicts_and_protected_targets_are_refusals_too(repo):
    run = repo.runs.open(KEY)
    run.put("settled", b"mine")
    run.commit("x")
    repo.protection.add("main", ["merge"])
    with pytest.raises(ProtectedBranchError):
        run.publish()
    (refusal,) = run.record.refusals
    assert (refusal.gates, run.state) == ((), RunState.OPEN)
    assert "protected" in refusal.reason
    repo.protection.remove("main")
    with repo.run("other") as other:
        other.put("settled", b"theirs")
    with pytest.raises(MergeConflictError) as refused:
        run.publish()
    assert [conflict.path for conflict in refused.value.conflicts] == ["settled"]
    assert [("settled" in refusal.reason) for refusal in run.record.refusals] == [False, True]
    assert run.state is RunState.PARKED


def test_a_publisher_refuses_a_head_and_words_the_commit(repo):
    def refuse(head):
        raise ValueError(f"not on {head.message}")

    before = repo.commit("main")
    run = repo.runs.open(KEY)
    run.put("a", b"1")
    run.commit("a file")
    with pytest.raises(ValueError, match="not on base"):
        run.publish(accepts=refuse)
    assert repo.commit("main") == before
    commit = run.publish(message="the fifth hour").commit
    assert (commit.message, commit.metadata["graveler.run"]) == ("the fifth hour", KEY)


def test_what_a_publisher_accepts_holds_until_it_lands():
    """Two publishers accept only a main without a capital, so one of them always loses."""

    def publish(number):
        def call(repo):
            def no_capital(head):
                if repo.ref(head).has_below("capitals/"):
                    raise MergeConflictError("there is a capital")

            repo.runs.attach(HANDLES[number]).publish(accepts=no_capital)

        return call

    def check(world, *outcomes):
        refused = [outcome for outcome in outcomes if isinstance(outcome, GravelerError)]
        assert [type(error) for error in refused] == [MergeConflictError]
        assert len(tree_of(world.repo(scripted=False).ref("main"))) == 1

    interleave(two_capitals, publish(0), publish(1), check, least=10)


def test_a_publish_stands_without_the_right_to_delete(repo, tree, monkeypatch, caplog):
    """The run raised an error, although its target had the publish."""
    with monkeypatch.context() as patch:

        def refuse(*_):
            raise PermissionDeniedError("no DELETE: grant it")

        for call in ("delete", "delete_many", "delete_if", "drop"):
            patch.setattr(f"graveler.kv.drivers.memory.MemoryKVStore.{call}", refuse)
        with repo.run(KEY, into="main") as run:
            run.put("a", b"1")
        assert run.publish().already
    assert tree(repo.ref("main")) == {"settled": "0", "a": "1"}
    assert f"run {KEY!r} is over, and its branch stays: no DELETE: grant it" in caplog.messages
    assert repo.runs.reap(dry_run=False, everything=True)
    assert [branch.name for branch in repo.branches()] == ["main"]
