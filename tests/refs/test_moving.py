"""Moving a branch: races, lost replies, and reads after them."""

from dataclasses import replace

import pytest

from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    InvalidInputError,
    OutcomeUnknownError,
    ThrottledError,
)
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.model import BranchRecord
from graveler.refs.mover import advance, move
from graveler.refs.refs import Refs
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.faults import lost_reply
from tests.harness.faults import FaultyKVStore, Script

NAMES = ["", "a/b", "a~b", "a^b", "a@b", "a:b", "-a", ".a", "a b", "é", "x" * 201, "f" * 64]

C0, C1, C2, C9 = (f"{number:064}" for number in (0, 1, 2, 9))


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def refs(script):
    kv = FaultyKVStore(MemoryKVStore(), script)
    made = Refs(kv, "x", clock=FakeClock(), ids=SequenceIds())
    made.branches.create(BranchRecord("main", C0, "t0"))
    return made


def to(commit_id):
    return lambda record: replace(record, commit_id=commit_id)


def test_a_move_runs_again_on_what_another_wrote(refs):
    seen = []

    def change(record):
        seen.append(record.commit_id)
        if len(seen) == 1:
            move(refs, "main", to(C1))
        return replace(record, staging_token="t1")

    moved = move(refs, "main", change)
    assert seen == [C0, C1]
    assert (moved.commit_id, moved.staging_token) == (C1, "t1")


def test_a_branch_that_never_rests_is_said_to_be_busy(refs):
    def change(record):
        move(refs, "main", replace)
        return replace(record, commit_id=C1)

    with pytest.raises(ThrottledError, match="try again"):
        move(refs, "main", change)
    assert refs.branches.get("main").commit_id == C0


def test_a_lost_reply_is_read_back(refs, script):
    script.arm(2, lost_reply, moment="after")
    assert move(refs, "main", to(C1)).commit_id == C1
    assert script.disarm() == "set_if"
    script.arm(2, lost_reply, moment="before")  # the write is lost as well as the reply
    assert move(refs, "main", to(C2)).commit_id == C2
    assert script.disarm() == "set_if"
    assert refs.branches.get("main").commit_id == C2


@pytest.mark.parametrize("call", ["get", "set_if"])
@pytest.mark.parametrize("written", [True, False])
def test_a_lost_reply_stays_unknown_if_the_store_stops_answering(
    refs, script, monkeypatch, written, call
):
    kv = refs.branches._kv

    def silent(*_):
        raise BackendUnavailableError("no answer")

    def strike(struck):
        monkeypatch.setattr(kv, call, silent)
        lost_reply(struck)

    script.arm(2, strike, moment="after" if written else "before")
    if call == "set_if" and written:
        assert move(refs, "main", to(C1)).commit_id == C1  # the read-back finds the write
        return
    with pytest.raises(OutcomeUnknownError):
        move(refs, "main", to(C1), landed=None if call == "set_if" else lambda _: False)


@pytest.fixture
def other(refs):
    """The refs as another process has them."""
    return Refs(refs.branches._kv._store, "x", clock=FakeClock(), ids=SequenceIds(100))


@pytest.mark.parametrize("written", [True, False])
def test_a_lost_reply_that_was_overwritten_is_told_by_the_caller(refs, other, script, written):

    def strike(call):
        move(other, "main", lambda record: replace(record, attempt=record.attempt + 1))
        lost_reply(call)

    script.arm(2, strike, moment="after" if written else "before")
    with pytest.raises(OutcomeUnknownError):
        move(refs, "main", to(C1))
    assert (refs.branches.get("main").commit_id == C1) == written
    script.arm(2, strike, moment="after" if written else "before")
    moved = move(refs, "main", to(C2), landed=lambda now: now.commit_id == C2)
    assert (moved.commit_id, moved.attempt) == (C2, 2)


@pytest.mark.parametrize("written", [True, False])
def test_advance_uses_history_if_another_wrote_after_lost_reply(refs, other, script, written):
    root = add(refs, "root")
    move(refs, "main", to(root.id))
    mine = add(refs, "mine", root)
    theirs = add(refs, "theirs", mine if written else root)

    def strike(call):
        move(other, "main", to(theirs.id))
        lost_reply(call)

    record, predicate = refs.branches.get_for_update("main")
    script.arm(1, strike, moment="after" if written else "before")
    assert advance(refs, replace(record, commit_id=mine.id), predicate, action="merge") is written
    assert refs.branches.get("main").commit_id == theirs.id


def add(refs, message, *parents):
    return refs.commits.add(
        metarange="0" * 64,
        parents=tuple(parent.id for parent in parents),
        message=message,
        committer="",
        created=refs.clock.now(),
        metadata={},
    )


def test_branches_are_listed_by_name_and_those_of_runs_come_last(refs):
    for name in ("b", "a", "run-x", "zoo", "run-x.step", "run-y", "run"):
        refs.branches.create(BranchRecord(name, C0, "t0"))
    refs.tags.create("zzz", C0)
    users, runs = ["a", "b", "main", "run", "zoo"], ["run-x", "run-x.step", "run-y"]
    names = users + runs
    assert [record.name for record in refs.branches.list()] == names
    assert list(refs.branches.names()) == names
    assert [record.name for record in refs.branches.list(runs=False)] == users
    assert [record.name for record in refs.branches.list(after="b")] == names[2:]
    assert [record.name for record in refs.branches.list(after="run-x")] == runs[1:]
    assert [record.name for record in refs.branches.of_runs("run-x.")] == ["run-x.step"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_that_addresses_could_not_hold_is_refused(refs, name):
    with pytest.raises(InvalidInputError):
        refs.branches.create(BranchRecord(name, C0, "t0"))
    with pytest.raises(InvalidInputError):
        refs.tags.create(name, C0)
    with pytest.raises(AlreadyExistsError):
        refs.branches.create(BranchRecord("main", C9, "t9"))
    assert refs.branches.get("main").commit_id == C0


def test_a_tag_does_not_move(refs):
    for _ in range(2):
        refs.tags.create("v1", C0)
    with pytest.raises(AlreadyExistsError, match=C0):
        refs.tags.create("v1", C1)
    assert dict(refs.tags.list()) == {"v1": C0}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_tag_whose_reply_was_lost_is_read_back(refs, script, moment):
    script.arm(3, lost_reply, moment=moment)  # after a read of the log and a write of a line
    if moment == "after":
        refs.tags.create("v1", C0)
    else:
        with pytest.raises(OutcomeUnknownError):
            refs.tags.create("v1", C0)
    refs.tags.create("v1", C0)
    assert refs.tags.find("v1") == C0


def test_protection_goes_by_pattern(refs):
    refs.protection.add("release-*")
    refs.protection.add("main")
    assert list(refs.protection.rules()) == ["main", "release-*"]
    for name in ("main", "release-1"):
        with pytest.raises(Exception, match="protected"):
            refs.protection.check(name, "commit")
    refs.protection.check("Main", "commit")
    for _ in range(2):
        refs.protection.remove("main")
    refs.protection.check("main", "commit")
