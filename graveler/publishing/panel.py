"""The gates of a branch judge a candidate; the same inputs are not judged twice."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from graveler.errors import GateFailedError, InvalidInputError
from graveler.gates.answer import ask
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import ANYTHING
from graveler.gates.facts import plain
from graveler.gates.gate import Gate
from graveler.gates.history import keep_statistics
from graveler.gates.inputs import inputs
from graveler.gates.judgement import Judgement
from graveler.gates.verdict import Verdict
from graveler.gates.verdicts import Verdicts
from graveler.model import Commit
from graveler.publishing.required import RequiredGates, distinct
from graveler.repository.stores import Stores

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
