"""The panel of gates that judges a candidate: given gates, and those that the branch requires.

A shell pattern names the branches that require gates, as in protection (``main``, ``release-*``).
The same inputs are not judged twice.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from threading import Event
from typing import Any, Self

from graveler.base.background import Threads
from graveler.display import Shown, printable
from graveler.errors import (
    BackendUnavailableError,
    GateFailedError,
    InvalidInputError,
    RefNotFoundError,
)
from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.declaration import ANYTHING
from graveler.gates.gate import Check, Gate, ask
from graveler.gates.named import NamedGate
from graveler.gates.statistics import keep_statistics
from graveler.gates.verdicts import Judgement, Verdict, Verdicts, hash_inputs
from graveler.model import Commit
from graveler.publishing.tracing import measure_gate
from graveler.reads.stores import Stores
from graveler.refs.expression import resolve
from graveler.refs.history import log
from graveler.refs.mover import move
from graveler.refs.settings import GateRules

Judged = dict[str, tuple[Check, Verdict]]
"""Verdicts of one publish by the hash of their inputs, with the checks that the hashes identify."""

_OWN = "graveler."
_SIDE_BY_SIDE = 2
_TRIED = 30
_MOST_PROCESSES = 8
_log = logging.getLogger(__name__)


class RequiredGates:
    """The gates that the branches of one repository require.

    A move reads the branch's record, then the required gates, and then replaces exactly that record.
    A change of the requirements therefore rewrites the record of every branch that they match. A move
    that the new gates did not judge loses its compare-and-set and tries again.
    """

    def __init__(self, stores: Stores) -> None:
        self._refs = stores.refs
        self._setting = stores.refs.requirements
        self._allowed = stores.gate_modules

    def rules(self, stored: GateRules | None = None) -> dict[str, tuple[NamedGate, ...]]:
        """Return the gates by pattern, in order; by default the present ones."""
        return {
            pattern: tuple(map(NamedGate.decode, gates))
            for pattern, gates in (self._setting.rules() if stored is None else stored).items()
        }

    def of(self, branch: str, stored: GateRules | None = None) -> tuple[Gate, ...]:
        """Return the gates that a branch requires; by default by the present rules."""
        required: list[Gate] = []
        for pattern, gates in self.rules(stored).items():
            if fnmatchcase(branch, pattern):
                required += _others(self._gates(pattern, gates), required, pattern)
        return tuple(required)

    def require(self, pattern: str, gates: Iterable[NamedGate]) -> None:
        """Let the branches that match a pattern require these gates and no others."""
        chosen = list(gates)
        if not pattern or not chosen:
            raise InvalidInputError(
                f"gates of branches {pattern!r}: name at least one; `drop` removes a pattern"
            )
        names = [gate.name for gate in self._gates(pattern, chosen)]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"gates of branches {pattern!r}: names {names} must differ")
        self._change(pattern, lambda _: chosen)

    def add(self, pattern: str, gate: NamedGate) -> None:
        """Let the branches that match a pattern require one more gate.

        It replaces a gate of the same name. The step is atomic: concurrent additions of other gates
        are kept.
        """
        if not pattern:
            raise InvalidInputError("gates of branches '': name the branches, by a shell pattern")
        (added,) = self._gates(pattern, [gate])

        def change(present: list[NamedGate]) -> list[NamedGate]:
            gates = zip(present, self._gates(pattern, present), strict=True)
            return [*(kept for kept, made in gates if made.name != added.name), gate]

        self._change(pattern, change)

    def drop(self, pattern: str) -> None:
        """Remove a pattern; no error if it does not exist."""
        self._setting.change(
            lambda rules: {other: gates for other, gates in rules.items() if other != pattern}
        )

    def _gates(self, pattern: str, gates: Iterable[NamedGate]) -> list[Gate]:
        return [gate.gate(pattern, self._allowed) for gate in gates]

    def _change(self, pattern: str, change: Callable[[list[NamedGate]], list[NamedGate]]) -> None:
        """Replace the gates of a pattern, then rewrite the records of the branches it matches."""

        def changed(rules: GateRules) -> GateRules:
            present = [NamedGate.decode(gate) for gate in rules.get(pattern, ())]
            return {**rules, pattern: [gate.encode() for gate in change(present)]}

        self._setting.change(changed)
        for name in [name for name in self._refs.branches.names() if fnmatchcase(name, pattern)]:
            with suppress(RefNotFoundError):  # deleted since
                # the record is equal except for its new nonce
                move(self._refs, name, replace, landed=lambda _: True)


def _others(gates: Iterable[Gate], present: list[Gate], suffix: str) -> list[Gate]:
    """Return the gates that are not present yet, each under a name that no other gate has."""
    named = {gate.name: gate for gate in present}
    others = []
    for gate in gates:
        other = gate
        while (same := named.get(other.name)) is not None and _identity(same) != _identity(gate):
            other = replace(other, name=f"{other.name} ({suffix})")
        if same is None:
            others.append(other)
            named[other.name] = other
    return others


def _identity(gate: Gate) -> tuple[Any, ...]:
    rule = gate.fingerprint or id(gate.check)
    return rule, gate.prefixes, gate.severity, gate.inputs


@dataclass(frozen=True, slots=True)
class Panel:
    """The gates that judge candidates for a branch."""

    stores: Stores
    gates: tuple[Gate, ...]
    judged: Judged = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        stores: Stores,
        branch: str,
        given: Iterable[Gate] = (),
        *,
        rules: GateRules | None = None,
        judged: Judged | None = None,
    ) -> Self:
        """Return the panel for a branch: the given gates and the required ones, each once."""
        first = list(given)
        required = RequiredGates(stores).of(branch, rules)
        gates = (*first, *_others(required, first, branch))
        return cls(stores, gates, {} if judged is None else judged)

    def verdicts(self, candidate: Candidate) -> tuple[Verdict, ...]:
        """Return the verdict of each gate on the candidate, in order; every gate judges.

        A verdict is stored under the gate, its fingerprint and its declared inputs, such as the
        content below the gate's prefix and the run. That of a gate without a fingerprint holds within
        this publish, and that of a check that failed without a refusal is not kept.
        """
        verdicts: list[Verdict] = []
        reused: list[str] = []
        new: dict[str, Verdict] = {}
        silent: list[Verdict] = []
        found = [(gate, *self._known(candidate, gate)) for gate in self.gates]
        judged = self._run_all(candidate, [gate for gate, _, known in found if known is None])
        for gate, key, verdict in found:
            if verdict is None:
                verdict, transient = judged[gate.name]  # noqa: PLW2901
                if transient and verdict.refuses:
                    silent.append(verdict)
                if key and not verdict.died:
                    self.judged[key] = gate.check, verdict
                    if gate.fingerprint is not None:
                        new[key] = verdict
            else:
                reused.append(gate.name)
            verdicts.append(verdict)
        if silent and not any(one.refuses for one in verdicts if one not in silent):
            raise BackendUnavailableError(
                f"gate {silent[0].gate!r} gave no verdict: {silent[0].reason}: repeat it"
            )
        return self._keep(candidate, verdicts, reused, new)

    def tried(self, candidate: Candidate) -> tuple[Verdict, ...]:
        """Return what each gate says of the candidate now; nothing is reused or recorded."""
        judged = self._run_all(candidate, self.gates)
        return tuple(judged[gate.name][0] for gate in self.gates)

    def known(self, candidate: Candidate) -> tuple[Verdict, ...] | None:
        """Return the result of `verdicts` if all of them are known, else None; no gate runs."""
        found = [self._known(candidate, gate)[1] for gate in self.gates]
        verdicts = [verdict for verdict in found if verdict is not None]
        if len(verdicts) < len(found):
            return None
        return self._keep(candidate, verdicts, [gate.name for gate in self.gates], {})

    def _known(self, candidate: Candidate, gate: Gate) -> tuple[str, Verdict | None]:
        """Return the hash of a gate's inputs, "" if they cannot be told, and the verdict on them."""
        if ANYTHING in gate.inputs:
            return "", None
        rule = gate.fingerprint
        key = hash_inputs(self.stores, candidate, gate, rule or f"in memory {id(gate.check)}")
        if key in self.judged:
            return key, self.judged[key][1]
        return key, None if rule is None else Verdicts(self.stores).find(key)

    def _run_all(
        self, candidate: Candidate, gates: Sequence[Gate]
    ) -> dict[str, tuple[Verdict, bool]]:
        """Run gates, by name: those with a process of their own side by side."""
        apart = [gate for gate in gates if gate.has_own_process]
        here = [gate for gate in gates if not gate.has_own_process]
        if len(apart) < _SIDE_BY_SIDE:
            return {gate.name: self._run(candidate, gate) for gate in gates}
        stop = Event()
        with Threads(min(len(apart), _MOST_PROCESSES)) as threads:
            started = {
                gate.name: threads.submit(self._run, candidate, gate, stop) for gate in apart
            }
            try:
                verdicts = {gate.name: self._run(candidate, gate) for gate in here}
                return verdicts | {name: each.result() for name, each in started.items()}
            except BaseException:
                stop.set()
                raise

    def _run(
        self, candidate: Candidate, gate: Gate, stop: Event | None = None
    ) -> tuple[Verdict, bool]:
        """Return the verdict of a gate, and whether a repetition may give another one."""
        began = time.perf_counter()
        if gate.has_own_process:
            from graveler.gates.isolation import process

            answer = process.ask_in_process(gate, candidate, stop)
        else:
            answer = ask(gate, candidate)
        if answer.died:
            _log.warning("gate %s died: %s", printable(gate.name), printable(answer.reason))
        own = candidate.commit_id
        # the changes to the target and to the first parent are equal only if they are one commit
        stands = candidate.commit.parents[:1] == (candidate.target.id,)
        seen = {
            (commit or own, prefix): stats
            for (commit, prefix), stats in answer.seen.items()
            if commit or stands
        }
        if seen:
            keep_statistics(self.stores, seen)
        verdict = Verdict(
            gate=gate.name,
            passed=answer.passed,
            severity=gate.severity,
            reason=answer.reason,
            commit=own,
            seconds=round(time.perf_counter() - began, 6),
            at=self.stores.clock.now().isoformat(timespec="milliseconds"),
            died=answer.died,
            facts=answer.facts,
        )
        measure_gate(verdict)
        return verdict, answer.transient

    def _keep(
        self,
        candidate: Candidate,
        verdicts: list[Verdict],
        reused: list[str],
        new: dict[str, Verdict],
    ) -> tuple[Verdict, ...]:
        """Store the judgement and its new verdicts; return all verdicts."""
        if self.gates:
            now = self.stores.clock.now()
            judgement = Judgement(
                commit=candidate.commit_id,
                target=candidate.target.id,
                into=candidate.into,
                action=candidate.action,
                run=candidate.run.key,
                attempt=candidate.run.attempt,
                at=now.isoformat(timespec="milliseconds"),
                verdicts=tuple(verdicts),
                reused=tuple(reused),
            )
            Verdicts(self.stores).keep(judgement, now, new)
        return tuple(verdicts)


def refuse(what: str, verdicts: tuple[Verdict, ...], into: str) -> None:
    """Raise GateFailedError if a verdict refuses."""
    refusals = [verdict for verdict in verdicts if verdict.refuses]
    if refusals:
        reasons = "; ".join(f"{verdict.gate}: {verdict.reason}" for verdict in refusals)
        raise GateFailedError(f"{what} was refused: {reasons}", verdicts, into)


def enforce(
    stores: Stores,
    action: str,
    branch: str,
    commit: Commit,
    head: Commit,
    judged: Judged | None = None,
) -> None:
    """Run the gates that a branch requires, before an operation moves it."""
    candidate = Candidate(stores, commit, target=head, into=branch, action=action)
    verdicts = Panel.of(stores, branch, judged=judged).verdicts(candidate)
    refuse(f"{action} into {branch!r}", verdicts, branch)


@dataclass(frozen=True, slots=True)
class Trial(Shown):
    """The verdicts of gates on one earlier commit.

    Attributes:
        commit: The commit.
        run: The run that it published; its key is "" if no run did.
        verdicts: The verdict of each gate.
    """

    commit: Commit
    run: RunContext
    verdicts: tuple[Verdict, ...]

    @property
    def refused(self) -> bool:
        """Whether a gate would have refused the commit."""
        return any(verdict.refuses for verdict in self.verdicts)

    @property
    def name(self) -> str:
        """The hour of the run, else its key, else the id of the commit."""
        return self.run.metadata.get("hour") or self.run.key or self.commit.id[:12]


def trials(stores: Stores, gates: Iterable[Gate], over: str, into: str) -> Iterator[Trial]:
    """Yield what gates say of the commits of a range, the oldest first; nothing is stored.

    Args:
        over: ``LEFT..RIGHT``: the commits on the first-parent line of the right ref, after the left; ""
            for the last 30 of the branch.
        into: The branch that the gates see as the target.
    """
    left, dots, right = over.partition("..")
    if over and not (left and dots and right):
        raise InvalidInputError(f"over {over!r}: give LEFT..RIGHT, as in main~30..main")
    first = resolve(stores.refs, left).id if over else ""
    head = resolve(stores.refs, right or into).id
    line = log(stores.refs.commits, head, first_parent=True)
    after = takewhile(lambda commit: commit.id != first, line)
    commits = [*islice(after, None if over else _TRIED)]
    if commits and not commits[-1].parents:
        commits.pop()  # the commit that made the repository
    panel = Panel(stores, tuple(gates))
    for commit in reversed(commits):
        candidate = _candidate(stores, commit, into)
        yield Trial(commit, candidate.run, panel.tried(candidate))


def _candidate(stores: Stores, commit: Commit, into: str) -> Candidate:
    """Return a commit as the gates would have seen it before it landed."""
    target = stores.refs.commits.get(commit.parents[0])
    pairs = commit.metadata
    own = {name: value for name, value in pairs.items() if not name.startswith(_OWN)}
    run = RunContext(pairs.get("graveler.run", ""), int(pairs.get("graveler.attempt", "0")), own)
    action = "publish" if run.key else "merge" if len(commit.parents) > 1 else "commit"
    return Candidate(stores, commit, target=target, into=into, run=run, action=action)
