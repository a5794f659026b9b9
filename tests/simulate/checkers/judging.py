"""Decide whether a read may return a value.

A read may return the value of a write under two conditions. The write did not begin after the
read ended. And no other write that follows it was acknowledged before the read began. A write
that a reset or the deletion of a branch may have discarded need not be visible afterwards. If
it was certainly discarded, it must not be visible.
"""

from enum import Enum

from tests.simulate.evidence import Evidence
from tests.simulate.history import Operation, precedes


class Wrong(Enum):
    """What is wrong with a value."""

    PHANTOM = "it was never written"
    FUTURE = "it was written afterwards"
    STALE = "it was overwritten before"
    LOST = "there is nothing where something was written before"
    RESURRECTED = "it was deleted before"
    DISCARDED = "it was discarded before"


_DIRECT = frozenset({"merge", "revert", "create", "hard_reset"})
"""The operations that write the head and stage nothing."""

NOTHING = Operation(0, "none", "create", "", before=0, done=True)
"""The initial write: it gives every path no value."""


def judge(
    evidence: Evidence, read: Operation, branch: str, path: str, value: str | None
) -> Wrong | None:
    """Return what is wrong with `value`, seen at `path` by an operation.

    Args:
        evidence: The record of the schedule.
        read: The operation that saw the value. For a merge or revert, only writes that were
            committed before it count.
        branch: The branch that it read.
        path: The path that it read.
        value: The value that it saw; None if the path did not exist.
    """
    if branch != "main" and evidence.of_kind("tick"):  # a tick takes what main has
        taken = [x for x in evidence.writes("main", path) if _value(x, path) == value]
        if any(not precedes(read, write) for write in taken):
            return None
    writes = [NOTHING, *evidence.writes(branch, path)]
    same = [write for write in writes if _value(write, path) == value]
    there = [write for write in same if not precedes(read, write)]
    kept = [write for write in there if not _discarded(evidence, write, read)]
    if not kept:
        return Wrong.DISCARDED if there else Wrong.FUTURE if same else Wrong.PHANTOM
    after = [x for x in writes if _counts(evidence, x, read)]
    over: list[Operation] = []
    for write in kept:
        newer = [x for x in after if x is not write and _follows(write, x)]
        if not newer:
            return None
        over += newer
    if value is None:
        return Wrong.LOST
    deleted = all(_value(write, path) is None for write in over)
    return Wrong.RESURRECTED if deleted else Wrong.STALE


def _value(write: Operation, path: str) -> str | None:
    return write.writes.get(path)


def _follows(one: Operation, other: Operation) -> bool:
    return one is NOTHING or precedes(one, other)


def _counts(evidence: Evidence, write: Operation, read: Operation) -> bool:
    """Return whether the read must see this write or a later one."""
    if write is NOTHING or not write.ok or not precedes(write, read):
        return False
    if read.kind in {"merge", "revert"} and write.kind not in _DIRECT:
        commits = evidence.of_kind("commit", branch=write.branch)
        if not any(c.ok and precedes(write, c) and precedes(c, read) for c in commits):
            return False
    return not any(
        _may_undo(evidence, undo, write, read)
        for undo in evidence.of_kind("reset", "drop", "hard_reset", branch=write.branch)
    )


def _may_undo(evidence: Evidence, undo: Operation, write: Operation, read: Operation) -> bool:
    if undo is write or precedes(undo, write) or precedes(read, undo):
        return False
    if undo.kind != "reset":
        return True
    if write.kind in _DIRECT:
        return False
    commits = evidence.of_kind("commit", branch=write.branch)
    return not any(c.ok and precedes(write, c) and precedes(c, undo) for c in commits)


def _discarded(evidence: Evidence, write: Operation, read: Operation) -> bool:
    """Return whether the write was certainly discarded before the read began."""
    for undo in evidence.of_kind("reset", "drop", "hard_reset", branch=write.branch):
        if not (undo.ok and precedes(write, undo) and precedes(undo, read)):
            continue
        if undo.kind != "reset":
            return True
        commits = evidence.of_kind("commit", branch=write.branch)
        if write.kind not in _DIRECT and all(
            precedes(c, write) or precedes(undo, c) for c in commits
        ):
            return True
    return False
