"""Checkers of progress, and of the state at rest."""

from collections.abc import Iterator

from graveler.staging.area import HOLD
from tests.simulate.evidence import Evidence
from tests.simulate.history import Operation, precedes

CALLS_ALONE = 60
CALLS_OF_A_TICK = 120
CALLS_OF_A_COLLECTION = 400
CALLS_FOR_EACH_BESIDE = 40
CALLS_OF_A_WRITE = 3

_ALONE = {
    "mark": CALLS_OF_A_COLLECTION,
    "sweep": CALLS_OF_A_COLLECTION,
    "tick": CALLS_OF_A_TICK,
}
_SURPRISES = {
    "commit": {"NoChangesError"},
    "merge": {"MergeConflictError"},
    "revert": {"MergeConflictError", "NoChangesError"},
    "create": {"AlreadyExistsError"},
    "tag": {"AlreadyExistsError"},
    "commit_paths": {"NoChangesError"},
}
_FAULTS = {"OutcomeUnknownError", "BackendUnavailableError"}
_FAULTS_OF = {"sweep": {"StateError"}, "mark": {"StateError"}}


def operations_end(evidence: Evidence) -> Iterator[str]:
    """The number of calls of an operation is bounded by the number of concurrent operations."""
    for operation in evidence.operations:
        beside = sum(_beside(operation, other) for other in evidence.operations)
        alone = _ALONE.get(operation.kind, CALLS_ALONE)
        most = alone + CALLS_FOR_EACH_BESIDE * beside
        if operation.calls > most:
            yield f"{operation.calls} calls, and {most} for {beside} beside it; {operation}"


def _beside(one: Operation, other: Operation) -> bool:
    return one is not other and not precedes(one, other) and not precedes(other, one)


def only_expected_errors(evidence: Evidence) -> Iterator[str]:
    """An operation fails only with an error of its kind, an allowed error, or after a fault."""
    for operation in evidence.operations:
        if operation.error is None:
            continue
        name = type(operation.error).__name__
        surprises = _SURPRISES.get(operation.kind, set()) if not operation.empty else set()
        if name in evidence.allowed or name in surprises:
            continue
        faults = _FAULTS | _FAULTS_OF.get(operation.kind, set())
        if name in faults and operation.bit & evidence.struck:
            continue
        yield f"{operation}: {operation.error}"


def nothing_is_sealed_at_rest(evidence: Evidence) -> Iterator[str]:
    """After one commit without concurrent operations, no sealed token is left."""
    for branch, tokens in evidence.sealed.items():
        if tokens:
            yield f"{branch} is at rest and has {len(tokens)} sealed tokens"


def everything_is_committed_at_rest(evidence: Evidence) -> Iterator[str]:
    """One commit without concurrent operations holds all that the listing before it showed."""
    last: dict[str, Operation] = {}
    for operation in evidence.of_kind("list"):
        if operation.ok and operation.process == "recovery":
            last[operation.branch] = operation
    for branch, listed in last.items():
        if branch in evidence.heads:
            tree = dict(evidence.commits[evidence.heads[branch]].tree)
            if tree != listed.result:
                yield f"{branch} showed {listed.result} and committed {tree}"


def nothing_staged_is_left_behind(evidence: Evidence) -> Iterator[str]:
    """Staged writes are removed after the commit that holds them, or with their branch.

    There are three exceptions, which a later sweep removes: writes under a token that another
    process sealed in the meantime, the writes that a dead process left, and what resets dropped from a
    branch that was deleted since.
    """
    writes = evidence.of_kind("put", "delete")
    overtaken = any(write.calls > CALLS_OF_A_WRITE or write.error for write in writes)
    died = any(not operation.done for operation in evidence.operations)
    resets = {reset.branch for reset in evidence.of_kind("reset", "hard_reset") if reset.result}
    forgotten = resets & {drop.branch for drop in evidence.of_kind("drop")}
    if died or forgotten or evidence.struck:
        return
    for token in evidence.orphans:
        if token.startswith(HOLD) or not overtaken:
            yield f"there are staged writes under {token}, which no branch names"
