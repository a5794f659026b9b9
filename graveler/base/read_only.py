"""The ban on writes while a gate judges, or a page is made.

A gate gets a candidate that cannot be written, but it may have other objects, such as a run or a
lake that it opens. Every function that changes a record first calls `refuse_writes`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from graveler.errors import ReadOnlyError

_PAGE = "a page"
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


@contextmanager
def only_looking() -> Iterator[None]:
    """Refuse every write to any lake from this thread, which makes a page, during the block."""
    token = _gate.set(_PAGE)
    try:
        yield
    finally:
        _gate.reset(token)


def only_judging(gate: str) -> None:
    """Refuse every write to any lake from this process, from now on."""
    _process[:] = [gate or "?"]


def refuse_writes(what: str) -> None:
    """Raise ReadOnlyError if a gate is judging, or a page is made."""
    gate = _gate.get() or (_process[0] if _process else "")
    if gate is _PAGE:
        raise ReadOnlyError(f"a page would write ({what}): pages only show what is there")
    if gate:
        raise ReadOnlyError(
            f"gate {gate!r} would write ({what}): a gate only judges; let the run write what is "
            "to be published, and have the gate report numbers with candidate.report()"
        )
