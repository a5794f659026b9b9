"""Runs gates over a candidate."""

import logging
from collections.abc import Iterable
from hashlib import sha256

from graveler.committed import scan
from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.gate import Gate
from graveler.gates.verdict import Verdict, Verdicts
from graveler.names import path_key
from graveler.records import encode_json, value_identity
from graveler.repository.listing import within
from graveler.repository.stores import Stores

__all__ = ["judge", "known_verdicts"]

_log = logging.getLogger(__name__)


def judge(candidate: Candidate, gates: Iterable[Gate]) -> tuple[Verdict, ...]:
    """Return what each gate says of the candidate, in their order; all of them are asked.

    A verdict is kept under the gate, its code and what it reads: the content below the
    gate's prefix in the candidate and in the target, and the run. A check that died, rather
    than refused, is not kept: the next publish asks again.

    Raises:
        InvalidInputError: Two gates have one name.
    """
    gates = list(gates)
    names = [gate.name for gate in gates]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"gates {sorted(names)}: names must differ")
    kept = Verdicts(candidate.repository.kv, candidate.repository.uid)
    return tuple(_ask(candidate, gate, kept) for gate in gates)


def known_verdicts(candidate: Candidate, gates: Iterable[Gate]) -> tuple[Verdict, ...] | None:
    """Return what `judge` would, if every gate has judged just this before; asks none of them.

    None where a gate's inputs are new to it.
    """
    kept = Verdicts(candidate.repository.kv, candidate.repository.uid)
    known = [kept.find(_judged(candidate, gate)) for gate in gates]
    verdicts = tuple(verdict for verdict in known if verdict is not None)
    return verdicts if len(verdicts) == len(known) else None


def _ask(candidate: Candidate, gate: Gate, kept: Verdicts) -> Verdict:
    judged = _judged(candidate, gate)
    known = kept.find(judged)
    if known is not None:
        return known
    try:
        answer = gate.check(candidate)
    except AssertionError as refusal:
        answer = str(refusal) or "assertion failed"
    except Exception as error:  # noqa: BLE001 - a gate that dies has refused, whatever it died of
        _log.warning("gate %s died", gate.name, exc_info=error)
        return Verdict(gate.name, False, gate.severity, f"{type(error).__name__}: {error}")
    passed = answer is None or answer is True
    reason = "" if passed else (answer if isinstance(answer, str) else "it returned False")
    if isinstance(answer, str) and not answer:
        passed, reason = True, ""
    verdict = Verdict(gate.name, passed, gate.severity, reason)
    kept.keep(judged, verdict)
    return verdict


def _judged(candidate: Candidate, gate: Gate) -> str:
    run = candidate.run
    return sha256(
        encode_json(
            {
                "gate": gate.name,
                "severity": gate.severity,
                "code": gate.fingerprint,
                "prefix": gate.prefix,
                "candidate": _content(
                    candidate.repository, candidate.commit.metarange, gate.prefix
                ),
                "target": _content(candidate.repository, candidate.target.metarange, gate.prefix),
                "run": [run.key, dict(run.metadata)],
            }
        )
    ).hexdigest()


def _content(stores: Stores, metarange: str, prefix: str) -> str:
    if not prefix:
        return metarange
    raw = path_key(prefix)
    digest = sha256()
    for key, value in within(raw, scan(stores.ranges, metarange, raw)):
        digest.update(sha256(key).digest() + value_identity(value))
    return digest.hexdigest()
