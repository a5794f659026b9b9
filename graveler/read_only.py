"""Refuses every write while a gate judges, through any object.

A gate gets a candidate that cannot be written. It may still hold other objects: the run it
closes over, a repository of its module, a lake that it opens. Every place that changes a record
calls `refuse_writes` first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from graveler.errors import ReadOnlyError

_gate: ContextVar[str] = ContextVar("graveler_gate", default="")
_process: list[str] = []


@contextmanager
def judging(gate: str) -> Iterator[None]:
    """Refuse what the block, in this thread, would write to any lake."""
    token = _gate.set(gate or "?")
    try:
        yield
    finally:
        _gate.reset(token)


def only_judging(gate: str) -> None:
    """Refuse from now on what any thread of this process would write to any lake."""
    _process[:] = [gate or "?"]


def refuse_writes(what: str) -> None:
    """Raise ReadOnlyError if a gate is judging.

    Args:
        what: That it would change, for the message.
    """
    gate = _gate.get() or (_process[0] if _process else "")
    if gate:
        raise ReadOnlyError(
            f"gate {gate!r} would write ({what}): a gate only judges; let the run write what is "
            "to be published, and have the gate report numbers with candidate.report()"
        )
