"""The ban on writes while a gate judges.

A gate gets a candidate that cannot be written, but it may have other objects, such as a run or a
lake that it opens. Every function that changes a record first calls `refuse_writes`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from graveler.errors import ReadOnlyError

_gate: ContextVar[str] = ContextVar("graveler_gate", default="")
_process: list[str] = []


@contextmanager
def judging(gate: str) -> Iterator[None]:
    """Refuse every write to any lake from this thread during the block."""
    token = _gate.set(gate or "?")
    try:
        yield
    finally:
        _gate.reset(token)


def only_judging(gate: str) -> None:
    """Refuse every write to any lake from this process, from now on."""
    _process[:] = [gate or "?"]


def refuse_writes(what: str) -> None:
    """Raise ReadOnlyError if a gate is judging."""
    gate = _gate.get() or (_process[0] if _process else "")
    if gate:
        raise ReadOnlyError(
            f"gate {gate!r} would write ({what}): a gate only judges; let the run write what is "
            "to be published, and have the gate report numbers with candidate.report()"
        )
