"""One schedule, step by step: the process that makes its next call, and the fault, if any.

A schedule is a text like ``writer committer*3 writer! committer?``. Each item names the process
whose call is next, the number of calls, and a sign for a fault:

====  ==========================================================================
      the call is made
``!``  the process dies before the call
``?``  the call is made, and its outcome is unknown (conditional writes)
``~``  the call is lost, and its outcome is unknown (conditional writes)
``-``  the call is not made, and the store is reported as unavailable
``+``  the call is made, and the store is reported as unavailable (plain writes)
``>``  as ``~``, but the call arrives later: at the item ``late`` (conditional writes)
====  ==========================================================================
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from graveler.errors import BackendUnavailableError, OutcomeUnknownError, PreconditionFailedError
from tests.simulate.scenarios.shared import Access, Call, clash
from tests.simulate.schedules.processes import Process
from tests.simulate.schedules.world import SimulatedWorld
from tests.simulate.watching import Watch

NORMAL, CRASH, REPLY_LOST, WRITE_LOST, DOWN_BEFORE, DOWN_AFTER, LATE = range(7)
SIGNS = ("", "!", "?", "~", "-", "+", ">")
KINDS = len(SIGNS)

_CONDITIONAL = frozenset({"set_if", "delete_if"})
_CONDITIONAL_KINDS = (REPLY_LOST, WRITE_LOST, LATE)
_PLAIN = frozenset({"set", "delete", "sweep"})
_ARRIVES = "late"
_ITEM = re.compile(r"([A-Za-z0-9_]+)([!?~+>-]?)(?:\*([0-9]+))?")

Choice = int
"""The process number times the number of kinds, plus the kind."""


class Step(NamedTuple):
    """The effects of a step that decide whether its order matters."""

    process: int
    fault: bool
    begins: bool
    ends: bool
    accesses: tuple[Access, ...]


def dependent(one: Step, other: Step) -> bool:
    """Return whether the order of the two steps can matter."""
    if one.process == other.process or (one.fault and other.fault):
        return True
    if (one.begins and other.ends) or (one.ends and other.begins):
        return True
    return any(clash(mine, theirs) for mine in one.accesses for theirs in other.accesses)


class Run:
    """Processes in a world, each stopped before its next call.

    Args:
        world: The stores and the history.
        processes: The processes, already started.
        faults: The kinds of faults that may happen.
        budget: The maximum number of faults.

    Attributes:
        trace: The steps taken.
        struck: The bits of the operations that met a fault.
        watch: Sees every write.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        processes: Sequence[Process],
        *,
        faults: Iterable[int] = (),
        budget: int = 0,
    ) -> None:
        self.world = world
        self.processes = processes
        self.trace: list[Choice] = []
        self.struck = 0
        self.watch = Watch(world.shared)
        self._faults = frozenset(faults)
        self._budget = budget
        self._under_way: list[Call] = []

    def state(self) -> int:
        """Return a digest of everything that determines what can follow."""
        return hash(
            (
                self.world.shared.digest,
                self._budget,
                *self._under_way,
                *[p.digest for p in self.processes],
            )
        )

    def choices(self) -> list[Choice]:
        """Return the steps that are possible next."""
        found = [len(self.processes) * KINDS] if self._under_way else []
        for number, process in enumerate(self.processes):
            call = process.pending
            if call is None:
                continue
            base = number * KINDS
            found.append(base)
            if not self._budget or not self._faults:
                continue
            if CRASH in self._faults:
                found.append(base + CRASH)
            if call.name in _CONDITIONAL:
                found += [base + kind for kind in _CONDITIONAL_KINDS if kind in self._faults]
            elif call.name != "pause":
                if DOWN_BEFORE in self._faults:
                    found.append(base + DOWN_BEFORE)
                if DOWN_AFTER in self._faults and call.name in _PLAIN:
                    found.append(base + DOWN_AFTER)
        return found

    def take(self, choice: Choice) -> Step:
        """Take a step."""
        self.trace.append(choice)
        number, kind = divmod(choice, KINDS)
        if number == len(self.processes):
            _, touched = self.world.shared.perform(self._under_way.pop(0))
            return Step(number, fault=False, begins=False, ends=False, accesses=touched)
        process = self.processes[number]
        if kind:
            self._budget -= 1
            if kind == CRASH:
                process.die()
                process.digest = hash((process.digest, "dead"))
                return Step(number, fault=True, begins=False, ends=False, accesses=())
        return self._call(number, process, kind)

    def _call(self, number: int, process: Process, kind: int) -> Step:
        call = process.pending
        assert call is not None, f"{process.name} ended sooner than before: {process.failure!r}"
        begins = process.begins
        if begins is not None:
            self.world.history.begin(begins)
            process.begins = None
        accesses = [Access(place, key, key, writes=True) for place, key in process.late]
        process.flush()
        result = self._made(call, kind, accesses)
        current = process.current
        assert current is not None
        current.calls += 1
        if kind:
            self.struck |= current.bit
        seen: object = result
        if isinstance(result, Exception):
            current.lost += isinstance(result, PreconditionFailedError)
            seen = type(result).__name__
        before = begins.before if begins is not None else -1
        process.digest = hash((process.digest, kind, before, seen))
        process.ended = None
        process.resume(result)
        if process.beside:
            accesses += process.beside
            process.beside.clear()
        return Step(
            number, kind > 0, begins is not None, process.ended is not None, tuple(accesses)
        )

    def _made(self, call: Call, kind: int, accesses: list[Access]) -> object:
        """Make the call, unless the fault prevents it, and return the result for the process."""
        result: object = None
        if kind == LATE:
            self._under_way.append(call)
        elif kind not in {WRITE_LOST, DOWN_BEFORE}:
            result, touched = self.world.shared.perform(call)
            if call.name != "pause":
                accesses += touched
        if kind in _CONDITIONAL_KINDS:
            return OutcomeUnknownError(f"{call.name}: the reply was lost (simulated)")
        if kind:
            return BackendUnavailableError(f"{call.name}: no answer (simulated)")
        return result

    def end(self) -> None:
        """Stop the processes that have not ended."""
        for process in self.processes:
            if process.pending is not None:
                process.die()

    def text(self) -> str:
        """Return the schedule so far."""
        names = [process.name for process in self.processes]
        return schedule_text(self.trace, [*names, _ARRIVES])


def schedule_text(trace: Iterable[Choice], names: Sequence[str]) -> str:
    """Return a schedule as text."""
    items = []
    for choice, group in groupby(trace):
        times = len(list(group))
        number, kind = divmod(choice, KINDS)
        items.append(f"{names[number]}{SIGNS[kind]}" + (f"*{times}" if times > 1 else ""))
    return " ".join(items)


def schedule_of(text: str, names: Sequence[str]) -> list[Choice]:
    """Return the schedule of a text."""
    trace: list[Choice] = []
    names = [*names, _ARRIVES]
    for item in text.split():
        match = _ITEM.fullmatch(item)
        if match is None or match[1] not in names:
            raise ValueError(f"{item!r} is no step: give one of {', '.join(names)}, with a sign")
        choice = names.index(match[1]) * KINDS + SIGNS.index(match[2])
        trace += [choice] * int(match[3] or 1)
    return trace
