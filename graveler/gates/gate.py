"""A gate: a named check of a candidate, and its answer."""

import dis
import sysconfig
import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, overload

from graveler.base.arguments import choice, duration, flag, text
from graveler.base.names import check_prefix
from graveler.base.read_only import judging
from graveler.errors import TRANSIENT, InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import inputs_of, plain, shortened
from graveler.gates.statistics import Seen
from graveler.model import LONGEST_DURATION

Check = Callable[[Candidate], bool | str | None]
"""Passes by returning None or True. False, a text (the reason), an AssertionError or any
other exception is a refusal."""

BUILT_IN: dict[str, Callable[..., "Gate"] | None] = {}
"""The built-in checks by kind: the functions that return their gates; None for those that are not loaded."""

_F = TypeVar("_F", bound=Callable[..., Any])
_FACTORIES: set[Callable[..., Any]] = set()

LONGEST_REASON = 4000
_TRACE_LINES = 60
_OTHERS = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<frozen ")
"""Folders of graveler and of the standard library."""

_SEVERITIES = ("error", "warn")
_MEMORY = (1 << 20, 1 << 50)
_MOST_SECONDS = LONGEST_DURATION.total_seconds()
_LONGEST_S = 3600.0
_COMPARES = frozenset({"COMPARE_OP", "CONTAINS_OP", "IS_OP"})


@dataclass(frozen=True, slots=True)
class Gate:
    """A check with a name.

    Attributes:
        name: Unique among the gates of a run.
        check: The function that judges.
        prefix: Prefix of the paths that the check reads; its verdict holds until something below
            it changes. "" is the whole tree.
        severity: ``error`` refuses the candidate, ``warn`` only reports.
        timeout: Longest time of the check, in seconds, as a timedelta, or as text (``90s``). A
            check that takes longer is killed and fails. Implies `isolated`.
        isolated: Whether the check runs in a process of its own, with a timeout of one hour by
            default. A leak or a crash then does not affect the publisher.
        memory: Bytes that the process of the check may allocate; a check that needs more fails.
            Implies `isolated`.
        also: Further prefixes that the check reads.
        reads: The inputs of the check. Its verdict holds while they are unchanged, and it can
            read nothing else of the candidate. One of ``content`` (the files below the prefixes,
            in the candidate and in the target), ``changes`` (only the change set below the
            prefixes) and ``anything`` (everything; the verdict is not stored). In addition any of
            ``message``, ``committer``, ``metadata``, ``parents``, ``created`` and ``commit`` (of
            the candidate), ``target`` (the head of the branch), ``run`` (its key and metadata),
            ``attempt`` and ``history``: ``{"changes", "run"}``.
        version: Text that names the check's code, its parameters and everything else on which its
            answer depends. Verdicts of a version are kept for later publishes. Without a version, a
            verdict holds within one publish. Built-in checks need none.
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
    version: str = ""

    def __post_init__(self) -> None:
        gate = f"gate {text(self.name, 'gate name')!r}"
        if not callable(self.check):
            raise InvalidInputError(f"{gate}: check {self.check!r}: give a function of a candidate")
        choice(self.severity, f"{gate}: severity", _SEVERITIES)
        text(self.version, f"{gate}: version", empty=True)
        flag(self.isolated, f"{gate}: isolated")
        also: Any = self.also
        if not isinstance(also, (str, tuple, list)):
            raise InvalidInputError(f"{gate}: also {also!r}: give a prefix, or a tuple of them")
        also = (also,) if isinstance(also, str) else tuple(also)
        object.__setattr__(self, "also", also)
        object.__setattr__(self, "reads", inputs_of(self.name, self.reads))
        for prefix in (self.prefix, *also):
            check_prefix(gate, prefix)
        timeout: Any = self.timeout
        if isinstance(timeout, (str, timedelta)):
            timeout = duration(timeout, f"{gate}: timeout", zero=False).total_seconds()
            object.__setattr__(self, "timeout", timeout)
        if timeout is not None and not (
            type(timeout) in {float, int} and 0 < timeout <= _MOST_SECONDS
        ):
            raise InvalidInputError(
                f"{gate}: timeout {self.timeout!r}: give more than no time, in seconds, and at "
                f"most {_MOST_SECONDS:.0f}"
            )
        least, most = _MEMORY
        if self.memory is not None and not (
            type(self.memory) is int and least <= self.memory <= most
        ):
            raise InvalidInputError(
                f"{gate}: memory {self.memory!r}: give bytes, at least {least} and at most {most}"
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
        return tuple(self.reads)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that the check reads."""
        return (self.prefix, *self.also)

    def view(self, candidate: Candidate) -> Candidate:
        """Return a candidate as this gate sees it."""
        return candidate.of(self.name, self.prefixes, self.inputs)

    @property
    def fingerprint(self) -> str | None:
        """What identifies the check in every process: a built-in check itself, else its `version`.

        None without a version; a verdict then holds within one publish.
        """
        check: Any = self.check
        if not (built_in := getattr(check, "built_in", "")) and not self.version:
            return None
        name = getattr(check, "__qualname__", type(check).__qualname__)
        return f"{built_in or f'{check.__module__}:{name}'} {self.version}"


OPTIONS = tuple(field.name for field in fields(Gate) if field.name != "check")
"""The fields of a gate, without its check."""


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
    version: str = "",
) -> Callable[[Check], Gate]: ...


def gate(name: Check | str | None = None, /, **options: Any) -> Gate | Callable[[Check], Gate]:
    """Make a gate of a function: ``@gate``, ``@gate("name")`` or ``@gate(severity="warn")``.

    Args:
        name: The gate's name; by default that of the function.
        options: Other fields of the gate; see `Gate`.
    """
    if callable(name):
        return as_gate(name)

    def make(check: Check) -> Gate:
        return Gate(name or _name(check), check, **options)

    return make


def gate_factory(make: _F) -> _F:
    """Mark a function that returns a gate, so that settings may call it by name with parameters."""
    _FACTORIES.add(make)
    return make


def is_factory(make: Any) -> bool:
    """Return whether a function is marked as a factory of gates."""
    return isinstance(make, Hashable) and make in _FACTORIES


def as_gate(check: Gate | Check) -> Gate:
    """Return `check` as a gate, under its own name if it is a plain function.

    Raises:
        InvalidInputError: `check` is neither a gate nor a function.
    """
    if isinstance(check, Gate):
        return check
    given: Any = check
    kind = next((kind for kind, make in BUILT_IN.items() if make and given is make), "")
    if kind or not callable(check):
        wrong = f"checks.{kind}, which makes one: call it" if kind else f"{check!r}"
        raise InvalidInputError(
            f"no gate: {wrong}; give a function of a candidate, what @graveler.gate makes, or a "
            f"built-in check as checks.row_count('output/'); there are {', '.join(sorted(BUILT_IN))}"
        )
    return Gate(_name(check), check)


def as_gates(given: Any) -> tuple[Gate, ...]:
    """Return the gates that a caller gives: one or several.

    Raises:
        InvalidInputError: A value is not a gate, or two gates have the same name.
    """
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
    gates = tuple(map(as_gate, given if several else (given,)))
    names = [gate.name for gate in gates]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInputError(
            f"gates {twice}: names must differ: give one another name, as in "
            "@gate('name'), Gate('name', check) or checks.unique(…, name='name')"
        )
    return gates


def _name(check: Check) -> str:
    return str(getattr(check, "__name__", type(check).__name__))


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one check on one candidate.

    Attributes:
        passed: Whether the candidate passed.
        reason: Why it did not pass.
        died: The check failed by an error, a signal or its timeout, without a refusal.
        transient: It died of an error after which a repetition may succeed.
        facts: The values that the check reported.
        seen: Statistics that the check computed, stored for later candidates.
    """

    passed: bool
    reason: str = ""
    died: bool = False
    transient: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    seen: Seen = field(default_factory=dict)


def died(reason: str) -> Answer:
    """Return the answer of a check that failed."""
    return Answer(False, shortened(reason, LONGEST_REASON), died=True)


def ask(gate: Gate, candidate: Candidate) -> Answer:
    """Run a gate in this process; an exception becomes an answer."""
    view = gate.view(candidate)
    try:
        with judging(gate.name):
            answer = _read(gate.check(view), gate.check)
        if view.undeclared:  # the check caught the error of the read
            answer = died(view.undeclared[0])
    except AssertionError as refusal:
        answer = Answer(False, shortened(_assertion(refusal), LONGEST_REASON))
        view.report(**_place(refusal))
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - any failure is an answer
        answer = died(f"{type(error).__name__}: {error}")
        answer = replace(answer, transient=isinstance(error, TRANSIENT))
        view.report(**_place(error), traceback=_trace(error))
    return replace(answer, facts=plain(view.facts), seen=dict(view.seen))


def _place(error: BaseException) -> dict[str, str]:
    """Return the line of the gate's own code at which it failed, as the fact ``at``."""
    own = _own(traceback.extract_tb(error.__traceback__))
    return {"at": f"{Path(own[-1].filename).name}:{own[-1].lineno}"} if own else {}


def _trace(error: BaseException) -> list[str]:
    """Return the traceback of an error and of those before it: the frames of the gate's own code."""
    told: traceback.TracebackException | None
    whole = told = traceback.TracebackException.from_exception(error)
    while told is not None and _own(whole.stack):
        told.stack = _own(told.stack)
        told = told.__cause__ or told.__context__
    return "".join(whole.format()).splitlines()[-_TRACE_LINES:]


def _own(frames: traceback.StackSummary) -> traceback.StackSummary:
    """Return the frames that are neither of graveler nor of a library."""
    return traceback.StackSummary.from_list(
        frame
        for frame in frames
        if not frame.filename.startswith(_OTHERS) and "site-packages" not in frame.filename
    )


def _assertion(refusal: AssertionError) -> str:
    if str(refusal):
        return str(refusal)
    frames = traceback.extract_tb(refusal.__traceback__)
    line = frames[-1].line if frames else ""
    return f"assertion failed: {line}" if line else "assertion failed"


def _read(value: Any, check: Check) -> Answer:
    if type(value).__name__ in {"bool", "bool_"} and callable(getattr(value, "item", None)):
        value = value.item()  # a NumPy boolean
    if value is None and _drops_a_comparison(check):
        return died(
            "it compares, throws the result away and returns nothing, so that it can never "
            "refuse: return the comparison, or assert it"
        )
    if value is None or value is True or value == "":
        return Answer(True)
    if value is False:
        return Answer(False, "it returned False")
    if isinstance(value, str):
        return Answer(False, shortened(value, LONGEST_REASON))
    return died(
        f"it returned {type(value).__name__} {shortened(repr(value), 80)}: return None or True to "
        "pass, False or a text that says why not to refuse"
    )


def _drops_a_comparison(check: Check) -> bool:
    """Return whether a function has a comparison as a statement whose result is dropped."""
    if not isinstance(check, FunctionType):
        return False
    steps = [step.opname for step in dis.get_instructions(check) if step.opname != "CACHE"]
    return any(first in _COMPARES and second == "POP_TOP" for first, second in pairwise(steps))
