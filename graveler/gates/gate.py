"""A gate: a named function that judges a candidate."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any, Final, overload

from graveler.arguments import duration
from graveler.errors import InvalidInputError
from graveler.gates.answer import Check
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import inputs_of
from graveler.gates.fingerprint import fingerprint
from graveler.names import check_prefix

_SEVERITIES: Final = ("error", "warn")
_LEAST_MEMORY: Final = 1 << 20
_LONGEST_S: Final = 3600.0
_CHECKS: Final = "graveler.gates.checks"


@dataclass(frozen=True, slots=True)
class Gate:
    """A check with a name.

    Attributes:
        name: Unique among the gates of a run.
        check: The function that judges.
        prefix: Prefix of the paths that the check reads; its verdict holds until something below
            it changes. "" is the whole tree.
        severity: ``error`` refuses the candidate, ``warn`` only reports.
        timeout: Longest time of the check, in seconds, as a timedelta, or as text (``90s``); the
            check is then killed and has failed. It runs in a process of its own.
        isolated: Run the check in a process of its own, with a timeout of one hour by default: a
            leak or a crash does not affect the publisher.
        memory: Bytes that the process of the check may allocate; a check that needs more fails.
            Implies `isolated`.
        also: Further prefixes that the check reads.
        reads: The inputs of the check. Its verdict holds while they are unchanged, and it can
            read nothing else of the candidate. One of ``content`` (the files below the prefixes,
            in the candidate and in the target), ``changes`` (only the change set below the
            prefixes) and ``anything`` (everything; the verdict is not stored). In addition any of ``message``, ``committer``, ``metadata``, ``parents``, ``created`` and
            ``commit`` (of the candidate), ``target`` (the head of the branch), ``run``
            (its key and metadata), ``attempt`` and ``history``: ``{"changes", "run"}``.
    """

    name: str
    check: Check
    prefix: str = ""
    severity: str = "error"
    timeout: float | str | timedelta | None = None
    isolated: bool = False
    memory: int | None = None
    also: tuple[str, ...] = ()
    reads: str | Iterable[str] = "content"

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise InvalidInputError(f"gate name {self.name!r}: give a text")
        if not _is_function(self.check):
            raise InvalidInputError(
                f"gate {self.name!r}: check {self.check!r}: give a function of a candidate"
            )
        object.__setattr__(self, "also", _texts(self.also))
        if self.severity not in _SEVERITIES:
            raise InvalidInputError(
                f"gate {self.name!r}: severity {self.severity!r}: give one of {_SEVERITIES}"
            )
        object.__setattr__(self, "reads", inputs_of(self.name, self.reads))
        for prefix in (self.prefix, *self.also):
            check_prefix(f"gate {self.name!r}", prefix)
        if isinstance(self.timeout, (str, timedelta)):
            length = duration(self.timeout, f"gate {self.name!r}: timeout", zero=False)
            object.__setattr__(self, "timeout", length.total_seconds())
        if not isinstance(self.timeout, (float, int, type(None))) or not 0 < self.seconds < inf:
            raise InvalidInputError(
                f"gate {self.name!r}: timeout {self.timeout!r}: give more than no time, in seconds"
            )
        if self.memory is not None and not (
            type(self.memory) is int and self.memory >= _LEAST_MEMORY
        ):
            raise InvalidInputError(
                f"gate {self.name!r}: memory {self.memory!r}: give bytes, at least {_LEAST_MEMORY}"
            )

    def __call__(self, candidate: Candidate) -> bool | str | None:
        """Run the check in this process."""
        return self.check(candidate)

    @property
    def seconds(self) -> float:
        """Timeout of the check in its own process, in seconds; one hour by default."""
        limit = self.timeout
        return float(limit) if isinstance(limit, (int, float)) else _LONGEST_S

    @property
    def has_own_process(self) -> bool:
        """Whether the check runs in a process of its own."""
        return self.isolated or self.timeout is not None or self.memory is not None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of the check: the extent, then the others, sorted."""
        return inputs_of(self.name, self.reads)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that the check reads."""
        return (self.prefix, *self.also)

    def view(self, candidate: Candidate) -> Candidate:
        """Return a candidate as this gate sees it."""
        return candidate.of(self.name, self.prefixes, self.inputs)

    @property
    def fingerprint(self) -> str | None:
        """Hash of the check's code and of the code and values that it reaches, in their present state.

        None if there is no such hash; the gate then judges every candidate.
        """
        return fingerprint(self.check)


@overload
def gate(name: Check, /) -> Gate: ...


@overload
def gate(
    name: str | None = None,
    /,
    *,
    prefix: str = "",
    severity: str = "error",
    timeout: float | str | timedelta | None = None,
    isolated: bool = False,
    memory: int | None = None,
    also: tuple[str, ...] = (),
    reads: str | Iterable[str] = "content",
) -> Callable[[Check], Gate]: ...


def gate(  # noqa: PLR0913 - the fields of a gate
    name: Check | str | None = None,
    /,
    *,
    prefix: str = "",
    severity: str = "error",
    timeout: float | str | timedelta | None = None,
    isolated: bool = False,
    memory: int | None = None,
    also: tuple[str, ...] = (),
    reads: str | Iterable[str] = "content",
) -> Gate | Callable[[Check], Gate]:
    """Make a gate of a function: ``@gate``, ``@gate("name")`` or ``@gate(severity="warn")``.

    Args:
        name: The gate's name; by default that of the function.
        prefix: Prefix of the paths that the check reads.
        severity: ``error`` or ``warn``.
        timeout: Longest time of the check, which then runs in a process of its own.
        isolated: Run the check in a process of its own without a timeout, too.
        memory: Bytes that its process may allocate.
        also: Further prefixes that the check reads.
        reads: The inputs of the check; see `Gate`.
    """
    if callable(name):
        return as_gate(name)

    def make(check: Check) -> Gate:
        return Gate(
            name or _name(check),
            check,
            prefix,
            severity,
            timeout,
            isolated,
            memory,
            tuple(also),
            reads,
        )

    return make


def _is_function(given: Any) -> bool:
    return callable(given)


def _texts(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _name(check: Check) -> str:
    return str(getattr(check, "__name__", type(check).__name__))


def as_gate(check: Gate | Check) -> Gate:
    """Return `check` as a gate, under its own name if it is a plain function.

    Raises:
        InvalidInputError: `check` is neither a gate nor a function.
    """
    if isinstance(check, Gate):
        return check
    made = getattr(check, "__module__", "") == _CHECKS
    if made or not _is_function(check):
        from graveler.gates import checks  # noqa: PLC0415 - which import this module

        there = ", ".join(checks.__all__)
        what = f"checks.{_name(check)}, which makes one: call it" if made else f"{check!r}"
        raise InvalidInputError(
            f"no gate: {what}; give a function of a candidate, what @graveler.gate makes, or a "
            f"built-in check as checks.row_count('output/'); there are {there}"
        )
    return Gate(_name(check), check)


def as_gates(given: Any) -> tuple[Gate, ...]:
    """Return the gates of a caller, who may give one or several.

    Raises:
        InvalidInputError: A value is not a gate, or two gates have the same name.
    """
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
    gates = tuple(as_gate(gate) for gate in (given if several else (given,)))
    names = [gate.name for gate in gates]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInputError(
            f"gates {twice}: names must differ: give one another name by Gate(…) or name=…"
        )
    return gates
