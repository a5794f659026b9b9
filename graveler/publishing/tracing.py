"""The spans of the operations that move a branch, and the durations of gates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graveler.base.telemetry import GATES, Attributes, report, span
from graveler.errors import GateFailedError, MergeConflictError, NoChangesError
from graveler.model import Commit
from graveler.reads.stores import Stores

if TYPE_CHECKING:
    from graveler.gates import Verdict


class Traced:
    """An operation in progress."""

    def __init__(self, note: Callable[[Attributes], object]) -> None:
        self.note = note

    def end(self, commit: Commit, *, landed: bool) -> None:
        """Note the result of the operation."""
        result = "landed" if landed else "unchanged"
        self.note({"graveler.commit.id": commit.id, "graveler.result": result})


@contextmanager
def traced(stores: Stores, name: str, attributes: Attributes) -> Iterator[Traced]:
    """Record the block as the span of an operation.

    The span counts the ranges of the repository's stores during the block. These include ranges of other
    threads that work on the same repository object, but not ranges that gates read.
    """
    stats = stores.ranges.stats
    read, written = stats.ranges_read, stats.ranges_written
    with span(name, {"vcs.repository.name": stores.name, **attributes}) as note:
        try:
            yield Traced(note)
        except BaseException as error:
            note({"graveler.result": _result(error)})
            raise
        finally:
            note(
                {
                    "graveler.ranges.read": stats.ranges_read - read,
                    "graveler.ranges.written": stats.ranges_written - written,
                }
            )


def _result(error: BaseException) -> str:
    match error:
        case GateFailedError():
            return "refused"
        case MergeConflictError():
            return "conflict"
        case NoChangesError():
            return "unchanged"
        case _:
            return "failed"


def measure_gate(verdict: "Verdict") -> None:
    """Report the time of a gate that ran."""
    if verdict.died:
        result = "failed"
    elif verdict.passed:
        result = "passed"
    else:
        result = "refused" if verdict.refuses else "warned"
    report(
        GATES, verdict.seconds, {"graveler.gate.name": verdict.gate, "graveler.gate.result": result}
    )
