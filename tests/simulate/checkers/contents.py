"""Checkers of the values that reads return and commits hold."""

from collections.abc import Iterator, Mapping

from tests.simulate.checkers.judging import Wrong, judge
from tests.simulate.evidence import Evidence
from tests.simulate.history import Operation, precedes

_UNREAL = frozenset({Wrong.PHANTOM, Wrong.FUTURE})


def _found(
    evidence: Evidence, read: Operation, contents: Mapping[str, str]
) -> Iterator[tuple[Wrong, str]]:
    for path in sorted(evidence.paths(read.branch) | set(contents)):
        value = contents.get(path)
        wrong = judge(evidence, read, read.branch, path, value)
        if wrong is not None:
            yield wrong, f"{path}={value}: {wrong.value}; {read}"


def _readings(evidence: Evidence) -> Iterator[tuple[Wrong, str]]:
    for read in evidence.of_kind("read", "list"):
        if not read.ok:
            continue
        if read.kind == "list":
            yield from _found(evidence, read, read.result)
            continue
        wrong = judge(evidence, read, read.branch, read.path, read.result)
        if wrong is not None:
            yield wrong, f"{read.path}={read.result}: {wrong.value}; {read}"


def _commits(evidence: Evidence) -> Iterator[tuple[Wrong, str]]:
    """Judge every commit that was acknowledged, is in a history, or had nothing to commit."""
    told = {op.message: op for op in evidence.of_kind("commit", "merge", "revert") if op.began}
    for operation in told.values():
        identifier = operation.result if operation.ok else operation.head
        if identifier in evidence.commits:
            yield from _found(evidence, operation, evidence.commits[identifier].tree)
    for branch in evidence.heads:
        for identifier in evidence.ancestors(branch):
            facts = evidence.commits[identifier]
            maker = told.get(facts.message)
            if maker is None or maker.branch != branch or maker.ok:
                continue
            unknown = Operation(0, maker.process, maker.kind, branch, before=maker.before)
            yield from _found(evidence, unknown, facts.tree)


def reads_see_what_happened(evidence: Evidence) -> Iterator[str]:
    """A read returns the value of a write that did not begin after the read."""
    return (text for wrong, text in _readings(evidence) if wrong in _UNREAL)


def reads_are_fresh(evidence: Evidence) -> Iterator[str]:
    """A read returns no value that was overwritten before the read began."""
    return (text for wrong, text in _readings(evidence) if wrong is Wrong.STALE)


def no_write_is_lost(evidence: Evidence) -> Iterator[str]:
    """Every acknowledged write is visible to every later read."""
    return (text for wrong, text in _readings(evidence) if wrong is Wrong.LOST)


def listings_show_one_version(evidence: Evidence) -> Iterator[str]:
    """A listing shows all paths of a merge as they are after it, or all as they are before it.

    This checker is for worlds in which no staged write hides a merged path.
    """
    for listing in evidence.of_kind("list"):
        for merge in evidence.of_kind("merge", branch=listing.branch):
            if listing.ok and any(listing.result.get(p) == v for p, v in merge.writes.items()):
                yield from (
                    f"{path}={value} was overwritten by {merge}; {listing}"
                    for path in merge.writes
                    if _is_older(evidence, path, value := listing.result.get(path), merge)
                )


def _is_older(evidence: Evidence, path: str, value: str | None, merge: Operation) -> bool:
    writes = [one for one in evidence.writes(merge.branch, path) if one.writes.get(path) == value]
    return all(one is not merge and precedes(one, merge) for one in writes)


def commits_hold_a_listing(evidence: Evidence) -> Iterator[str]:
    """A commit holds only what a listing could have shown."""
    return (text for wrong, text in _commits(evidence) if wrong in _UNREAL)


def commits_hold_what_came_before(evidence: Evidence) -> Iterator[str]:
    """A commit holds the writes that were acknowledged before it began, or newer writes."""
    return (text for wrong, text in _commits(evidence) if wrong in {Wrong.STALE, Wrong.LOST})


def deletions_stay(evidence: Evidence) -> Iterator[str]:
    """A deleted value does not reappear."""
    for source in (_readings, _commits):
        yield from (text for wrong, text in source(evidence) if wrong is Wrong.RESURRECTED)


def discarded_stays_discarded(evidence: Evidence) -> Iterator[str]:
    """A value that a reset or the deletion of a branch discarded does not reappear."""
    for source in (_readings, _commits):
        yield from (text for wrong, text in source(evidence) if wrong is Wrong.DISCARDED)


def refs_hold_still(evidence: Evidence) -> Iterator[str]:
    """Every listing of a commit or a tag has the same contents."""
    first: dict[str, Operation] = {}
    for operation in evidence.of_kind("list_ref"):
        if operation.ok:
            earlier = first.setdefault(operation.branch, operation)
            if earlier.result != operation.result:
                yield f"{earlier}, then {operation}"
