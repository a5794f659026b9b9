"""Runs gates over a candidate."""

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
    """Return what each gate says of the candidate, in their order; all of them are asked.

    Those that the branch requires are asked as well.

    A verdict is kept under the gate, its rule and what it declares to read: the content below
    the gate's prefix in the candidate and in the target, the run. What a check said that died,
    rather than refused, is not kept, nor what one said whose rule cannot be told, or was another
    one when it had judged: the next publish asks again.

    Args:
        stores: The repository, where verdicts are kept.
        candidate: What is judged.
        gates: Who is asked.

    Raises:
        InvalidInputError: Two gates have one name.
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
            # a check may change what it goes by, and a process of its own may have another one
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
    """Return what `judge` would, if every gate has judged just this before; asks none of them.

    None where a gate's inputs are new to it.
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
    """Return what verdicts of a gate are kept under, None where they are not."""
    return None if ANYTHING in gate.inputs else gate.fingerprint


def _ask(stores: Stores, candidate: Candidate, gate: Gate) -> tuple[Verdict, str | None]:
    """Return what a gate says, and by which rule."""
    began = time.perf_counter()
    if gate.has_own_process:
        from graveler.gates.isolation.process import ask_elsewhere  # noqa: PLC0415 - few gates need it

        answer = ask_elsewhere(gate, candidate)
    else:
        answer = ask(gate.name, gate.check, gate.view(candidate))
    own = candidate.commit_id
    # what it brought to the target is what it brought to its first parent only if it stands on it
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
