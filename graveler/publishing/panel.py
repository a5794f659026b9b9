"""The panel of gates that judges a candidate: those given, and those that the branch requires.

Branches that require gates are named by shell patterns, as in protection (``main``,
``release-*``). The same inputs are not judged twice.
"""

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Self

from graveler.errors import GateFailedError, InvalidInputError, RefNotFoundError
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import ANYTHING
from graveler.gates.facts import plain
from graveler.gates.gate import Gate, ask
from graveler.gates.inputs import inputs
from graveler.gates.named import NamedGate
from graveler.gates.statistics import keep_statistics
from graveler.gates.verdicts import Judgement, Verdict, Verdicts
from graveler.model import BranchRecord, Commit
from graveler.reads.stores import Stores
from graveler.refs import move
from graveler.refs.settings import GateRules


class RequiredGates:
    """What the branches of one repository require.

    A move reads the branch's record, then the gates that the branch requires, then replaces exactly
    that record. So after a change of the requirements, the record of every branch that they match is
    rewritten: a move that was not judged by the new gates loses its compare-and-set and tries again.
    """

    def __init__(self, stores: Stores) -> None:
        self._refs = stores.refs
        self._kept = stores.refs.requirements
        self._allowed = stores.gate_modules

    def rules(self) -> dict[str, tuple[NamedGate, ...]]:
        """Return the gates by pattern, both in order."""
        return {
            pattern: tuple(NamedGate.decode(gate) for gate in gates)
            for pattern, gates in self._kept.rules().items()
        }

    def of(self, branch: str) -> tuple[Gate, ...]:
        """Return the gates that a branch requires."""
        found: list[Gate] = []
        for pattern, gates in self.rules().items():
            if fnmatchcase(branch, pattern):
                found += distinct(
                    [gate.gate(pattern, self._allowed) for gate in gates], found, pattern
                )
        return tuple(found)

    def require(self, pattern: str, gates: Iterable[NamedGate]) -> None:
        """Have branches that match a pattern require these gates and no others.

        Raises:
            InvalidInputError: None is given, or two have one name.
        """
        chosen = list(gates)
        if not pattern or not chosen:
            raise InvalidInputError(
                f"gates of branches {pattern!r}: name at least one; `drop` takes a pattern away"
            )
        names = [gate.gate(pattern, self._allowed).name for gate in chosen]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"gates of branches {pattern!r}: names {names} must differ")
        encoded = [gate.encode() for gate in chosen]
        self._kept.change(lambda rules: {**rules, pattern: encoded})
        self._rewrite_records(pattern)

    def add(self, pattern: str, gate: NamedGate) -> None:
        """Have branches that match a pattern require one gate more, in the place of its namesake.

        In one atomic step: what others require at the same moment is required, too.
        """
        name = gate.gate(pattern, self._allowed).name

        def change(rules: GateRules) -> GateRules:
            there = rules.get(pattern, ())
            others = [
                one
                for one in there
                if NamedGate.decode(one).gate(pattern, self._allowed).name != name
            ]
            return {**rules, pattern: [*others, gate.encode()]}

        if not pattern:
            raise InvalidInputError("gates of branches '': name the branches, by a shell pattern")
        self._kept.change(change)
        self._rewrite_records(pattern)

    def _rewrite_records(self, pattern: str) -> None:
        for name in [name for name in self._refs.branches.names() if fnmatchcase(name, pattern)]:
            with suppress(RefNotFoundError):  # deleted since
                move(self._refs, name, _rewritten, landed=lambda _: True)

    def drop(self, pattern: str) -> None:
        """Take a pattern away; no error where it is not there."""
        self._kept.change(
            lambda rules: {other: gates for other, gates in rules.items() if other != pattern}
        )


def _rewritten(there: BranchRecord) -> BranchRecord:
    return replace(there)  # equal but for the nonce it will get


def distinct(gates: Iterable[Gate], others: list[Gate], where: str) -> list[Gate]:
    """Return those gates that are not among the others, under names that none of them has."""
    there = {gate.name: gate for gate in others}
    chosen = []
    for gate in gates:
        named = gate
        while (same := there.get(named.name)) is not None and _what(same) != _what(gate):
            named = replace(named, name=f"{named.name} ({where})")  # nobody takes its place by name
        if same is None:
            chosen.append(named)
    return chosen


def _what(gate: Gate) -> tuple[Any, ...]:
    rule = gate.fingerprint or id(gate.check)
    return rule, gate.prefixes, gate.severity, gate.inputs


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Panel:
    """The gates that judge what a branch would become.

    Attributes:
        stores: The repository, where verdicts are kept.
        gates: Those that a publisher gave, then those that the branch requires.
    """

    stores: Stores
    gates: tuple[Gate, ...]

    @classmethod
    def of(cls, stores: Stores, branch: str, given: Iterable[Gate] = ()) -> Self:
        """Return the panel for a branch: the given gates and the required ones, each once.

        Raises:
            InvalidInputError: Two gates have one name.
        """
        first = list(given)
        gates = (*first, *distinct(RequiredGates(stores).of(branch), first, branch))
        names = [gate.name for gate in gates]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"gates {sorted(names)}: names must differ")
        return cls(stores, gates)

    def judge(self, candidate: Candidate) -> tuple[Verdict, ...]:
        """Return the verdict of each gate on the candidate, in order; every gate is judged.

        A verdict is stored under the gate, its fingerprint and its declared inputs, such as the
        content below the gate's prefix and the run. It is not stored if the check failed rather
        than refused, if the check has no fingerprint, or if the fingerprint changed while the check
        ran: the next publish then runs the gate again.
        """
        if not self.gates:
            return ()
        kept = Verdicts(self.stores.kv, self.stores.uid)
        verdicts: list[Verdict] = []
        new: dict[str, Verdict] = {}
        reused: list[str] = []
        for gate in self.gates:
            rule = _rule(gate)
            judged = None if rule is None else inputs(candidate, gate, rule)
            verdict = None if judged is None else kept.find(judged)
            if verdict is None:
                verdict, judged_by = _ask(self.stores, candidate, gate)
                # a check may change its globals, and its own process may have other code
                if judged is not None and judged_by == rule:
                    new[judged] = verdict
            else:
                reused.append(gate.name)
            verdicts.append(verdict)
        _keep(self.stores, candidate, tuple(verdicts), tuple(reused), new)
        return tuple(verdicts)

    def known(self, candidate: Candidate) -> tuple[Verdict, ...] | None:
        """Return the verdicts of `judge` if all of them are stored, else None; no gate runs."""
        kept = Verdicts(self.stores.kv, self.stores.uid)
        verdicts = []
        for gate in self.gates:
            rule = _rule(gate)
            verdict = None if rule is None else kept.find(inputs(candidate, gate, rule))
            if verdict is None:
                return None
            verdicts.append(verdict)
        if self.gates:
            names = tuple(gate.name for gate in self.gates)
            _keep(self.stores, candidate, tuple(verdicts), names, {})
        return tuple(verdicts)


def refuse(what: str, verdicts: tuple[Verdict, ...]) -> None:
    """Raise GateFailedError where a verdict refuses.

    Args:
        what: What was judged, for the message: ``run 'hour 05'``.
        verdicts: Of all gates.
    """
    refusals = [verdict for verdict in verdicts if verdict.refuses]
    if refusals:
        reasons = "; ".join(f"{verdict.gate}: {verdict.reason}" for verdict in refusals)
        raise GateFailedError(f"{what} was refused: {reasons}", verdicts)


def enforce(stores: Stores, action: str, branch: str, commit: Commit, head: Commit) -> None:
    """Ask the gates that a branch requires, before an operation moves it.

    Args:
        stores: The repository.
        action: The operation.
        branch: The branch.
        commit: Its new head.
        head: Its present head.

    Raises:
        GateFailedError: One refuses; the branch must not move.
    """
    panel = Panel.of(stores, branch)
    candidate = Candidate(stores, commit, target=head, into=branch, action=action)
    refuse(f"{action} into {branch!r}", panel.judge(candidate))


def _rule(gate: Gate) -> str | None:
    """Return the fingerprint that a gate's verdicts are stored under, None if they are not stored."""
    return None if ANYTHING in gate.inputs else gate.fingerprint


def _ask(stores: Stores, candidate: Candidate, gate: Gate) -> tuple[Verdict, str | None]:
    """Run a gate; return its verdict and its fingerprint after the run."""
    began = time.perf_counter()
    if gate.has_own_process:
        from graveler.gates.isolation.process import ask_in_process  # noqa: PLC0415 - few gates need it

        answer = ask_in_process(gate, candidate)
    else:
        answer = ask(gate.name, gate.check, gate.view(candidate))
    own = candidate.commit_id
    # the change to the target equals the change to the first parent only if that is the target
    stands = candidate.commit.parents[:1] == (candidate.target.id,)
    keep_statistics(
        stores,
        {
            (commit or own, prefix): found
            for (commit, prefix), found in answer.seen.items()
            if commit or stands
        },
    )
    if answer.died:
        _log.warning("gate %s died: %s", gate.name, answer.reason)
    verdict = Verdict(
        gate=gate.name,
        passed=answer.passed,
        severity=gate.severity,
        reason=answer.reason,
        commit=candidate.commit_id,
        seconds=round(time.perf_counter() - began, 6),
        at=_moment(stores),
        died=answer.died,
        facts=plain(answer.facts),
    )
    return verdict, answer.rule


def _moment(stores: Stores) -> str:
    return stores.clock.now().isoformat(timespec="milliseconds")


def _keep(
    stores: Stores,
    candidate: Candidate,
    verdicts: tuple[Verdict, ...],
    reused: tuple[str, ...],
    new: dict[str, Verdict],
) -> None:
    now = stores.clock.now()
    judgement = Judgement.of(candidate, now.isoformat(timespec="milliseconds"), verdicts, reused)
    Verdicts(stores.kv, stores.uid).keep(judgement, now, new)
