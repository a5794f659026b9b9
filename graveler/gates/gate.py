"""A gate: a named function that judges a candidate."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from types import CodeType
from typing import Any, overload

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate

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
        """Hash of the check's code and of what it closes over.

        A value whose text differs from process to process (an object without a ``repr``) makes
        a fingerprint that never repeats: then the gate is judged again, which is the safe side.
        """
        digest = sha256()
        _feed(digest.update, self.check)
        return digest.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any) -> None:
    if isinstance(value, partial):
        for part in (value.func, value.args, sorted(value.keywords.items())):
            _feed(update, part)
        return
    code = getattr(value, "__code__", None)
    if not isinstance(code, CodeType):
        update(repr(value).encode("utf-8", "surrogatepass") + b"\0")
        return
    _feed_code(update, code)
    for extra in (value.__defaults__, value.__kwdefaults__):
        update(repr(extra).encode("utf-8", "surrogatepass") + b"\0")
    for cell in value.__closure__ or ():
        _feed(update, cell.cell_contents)


def _feed_code(update: Callable[[bytes], None], code: CodeType) -> None:
    update(code.co_code + repr(code.co_names).encode() + b"\0")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed_code(update, constant)
        else:
            update(repr(constant).encode("utf-8", "surrogatepass") + b"\0")


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
