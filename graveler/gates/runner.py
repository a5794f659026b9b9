"""The runner of gates: stored verdicts are used again, all other gates are run."""

import logging
import time
from collections.abc import Iterable

from graveler.errors import InvalidInputError
from graveler.gates.answer import ask
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import ANYTHING
from graveler.gates.facts import plain
from graveler.gates.gate import Gate
from graveler.gates.history import keep_statistics
from graveler.gates.inputs import inputs
from graveler.gates.judgement import Judgement
from graveler.gates.required import combined
from graveler.gates.verdict import Verdict
from graveler.gates.verdicts import Verdicts
from graveler.repository.stores import Stores

__all__ = ["judge", "known_verdicts"]

_log = logging.getLogger(__name__)


def judge(stores: Stores, candidate: Candidate, gates: Iterable[Gate]) -> tuple[Verdict, ...]:
    """Return the verdict of each gate on the candidate, in order; every gate is judged.

    The gates that the branch requires are included.

    A verdict is stored under the gate, its fingerprint and its declared inputs, such as the
    content below the gate's prefix and the run. It is not stored if the check failed rather than
    refused, if the check has no fingerprint, or if the fingerprint changed while the check ran:
    the next publish then runs the gate again.

    Args:
        stores: The repository, which stores the verdicts.
        candidate: The candidate to judge.
        gates: The gates to run.

    Raises:
        InvalidInputError: Two gates have the same name.
    """
    gates = combined(stores, candidate.into, gates)
    names = [gate.name for gate in gates]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"gates {sorted(names)}: names must differ")
    if not gates:
        return ()
    kept = Verdicts(stores.kv, stores.uid)
    verdicts: list[Verdict] = []
    new: dict[str, Verdict] = {}
    reused: list[str] = []
    for gate in gates:
        rule = _rule(gate)
        judged = None if rule is None else inputs(candidate, gate, rule)
        verdict = None if judged is None else kept.find(judged)
        if verdict is None:
            verdict, judged_by = _ask(stores, candidate, gate)
            # a check may change its globals, and its own process may have imported other code
            if judged is not None and judged_by == rule:
                new[judged] = verdict
        else:
            reused.append(gate.name)
        verdicts.append(verdict)
    _keep(stores, candidate, tuple(verdicts), tuple(reused), new)
    return tuple(verdicts)


def known_verdicts(
    stores: Stores, candidate: Candidate, gates: Iterable[Gate]
) -> tuple[Verdict, ...] | None:
    """Return the verdicts of `judge` if all of them are stored; no gate runs.

    None if a gate has no verdict on these inputs.
    """
    gates = combined(stores, candidate.into, gates)
    kept = Verdicts(stores.kv, stores.uid)
    verdicts = []
    for gate in gates:
        rule = _rule(gate)
        verdict = None if rule is None else kept.find(inputs(candidate, gate, rule))
        if verdict is None:
            return None
        verdicts.append(verdict)
    if gates:
        _keep(stores, candidate, tuple(verdicts), tuple(gate.name for gate in gates), {})
    return tuple(verdicts)


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
