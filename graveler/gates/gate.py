"""A gate: a named function that judges a candidate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.fingerprint import fingerprint

__all__ = ["Check", "Gate", "as_gate", "gate"]

Check = Callable[[Candidate], bool | str | None]
"""Passes by returning None or True. False, a text (the reason), an AssertionError or any
other exception is a refusal."""

_SEVERITIES = ("error", "warn")


@dataclass(frozen=True, slots=True)
class Gate:
    """A check with a name.

    Attributes:
        name: Unique among the gates of a run.
        check: The function.
        prefix: What the check reads of the tree; its verdict is kept as long as nothing there
            changes. "" is the whole tree.
        severity: ``error`` refuses the candidate, ``warn`` only says so.
    """

    name: str
    check: Check
    prefix: str = ""
    severity: str = "error"

    def __post_init__(self) -> None:
        if self.severity not in _SEVERITIES:
            raise InvalidInputError(
                f"gate {self.name!r}: severity {self.severity!r}: give one of {_SEVERITIES}"
            )

    def __call__(self, candidate: Candidate) -> bool | str | None:
        """Run the check."""
        return self.check(candidate)

    @property
    def fingerprint(self) -> str:
        """Hash of the check's code, of the functions and constants it uses, and what it closes over.

        A value whose text differs from process to process (an object without a ``repr``) makes
        a fingerprint that never repeats: then the gate is judged again, which is the safe side.
        """
        return fingerprint(self.check)


@overload
def gate(name: Check, /) -> Gate: ...


@overload
def gate(
    name: str | None = None, /, *, prefix: str = "", severity: str = "error"
) -> Callable[[Check], Gate]: ...


def gate(
    name: Check | str | None = None, /, *, prefix: str = "", severity: str = "error"
) -> Gate | Callable[[Check], Gate]:
    """Make a gate of a function: ``@gate``, ``@gate("name")`` or ``@gate(severity="warn")``.

    Args:
        name: The gate's name; the function's where not given.
        prefix: What the check reads of the tree.
        severity: ``error`` or ``warn``.
    """
    if callable(name):
        return as_gate(name)

    def make(check: Check) -> Gate:
        return Gate(name or _name(check), check, prefix, severity)

    return make


def _name(check: Check) -> str:
    return str(getattr(check, "__name__", type(check).__name__))


def as_gate(check: Gate | Check) -> Gate:
    """Return `check` as a gate, under its own name if it is a plain function."""
    return check if isinstance(check, Gate) else Gate(_name(check), check)
