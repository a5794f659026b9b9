"""What a gate judges, as a hash: the same inputs get the same verdict, unasked."""

from hashlib import sha256
from typing import Final

from graveler.committed import diff, scan
from graveler.committed.metarange import read as read_metarange
from graveler.gates.candidate import Candidate
from graveler.gates.gate import Gate
from graveler.names import path_key
from graveler.records import encode_json, value_identity
from graveler.repository.listing import within
from graveler.repository.stores import Stores

__all__ = ["content", "inputs"]

_GOING_ON: Final = frozenset({"publish", "merge", "commit", "cherry-pick"})
_GONE: Final = bytes(32)


def inputs(candidate: Candidate, gate: Gate, rule: str) -> str:
    """Return the hash of what a gate judges by: its rule, the content below its prefixes, the run.

    What would move the branch is part of it: to take files away may be right for a revert alone.

    Args:
        candidate: What it judges.
        gate: The gate.
        rule: Its fingerprint.
    """
    stores = candidate.repository
    read = (
        _changes(candidate, gate)
        if gate.reads == "changes"
        else [
            [prefix, *(content(stores, tree, prefix) for tree in _trees(candidate))]
            for prefix in (gate.prefix, *gate.also)
        ]
    )
    return sha256(
        encode_json(
            {
                "gate": gate.name,
                "severity": gate.severity,
                "code": rule,
                "prefix": gate.prefix,
                "read": read,
                "into": candidate.into,
                "action": _action(candidate),
                "run": [candidate.run.key, dict(candidate.run.metadata)],
            }
        )
    ).hexdigest()


def _action(candidate: Candidate) -> list[str]:
    """Return what would move the branch; what puts it anywhere is judged each time by itself."""
    if candidate.action in _GOING_ON:
        return [candidate.action]
    return [candidate.action, candidate.commit_id, candidate.target.id]


def _trees(candidate: Candidate) -> tuple[str, str]:
    return candidate.commit.metarange, candidate.target.metarange


def _changes(candidate: Candidate, gate: Gate) -> str:
    stores = candidate.repository
    after, before = _trees(candidate)
    digest = sha256()
    for prefix in (gate.prefix, *gate.also):
        raw = path_key(prefix) if prefix else b""
        for change in diff(stores.ranges, before, after, prefix=raw):
            for value in (change.left_value, change.right_value):
                digest.update(_GONE if value is None else value_identity(value))
            digest.update(sha256(change.key).digest())
    return digest.hexdigest()


def content(stores: Stores, metarange: str, prefix: str) -> str:
    """Return a hash of what a tree holds below a prefix.

    A range that lies below it whole counts by its id, unopened; only those at the edges are
    read. So trees that hold the same below the prefix, but cut it into other ranges, differ:
    what they hold is then judged once more than it need be.
    """
    if not prefix:
        return metarange
    raw = path_key(prefix)
    digest = sha256()
    for info in read_metarange(stores.ranges, metarange):
        if info.max_key < raw:
            continue
        if not info.min_key.startswith(raw) and info.min_key > raw:
            break
        if info.min_key.startswith(raw) and info.max_key.startswith(raw):
            digest.update(b"range" + info.id)
            continue
        digest.update(b"keys")
        start = max(raw, info.min_key)
        for key, value in within(raw, scan(stores.ranges, metarange, start)):
            if key > info.max_key:
                break
            digest.update(sha256(key).digest() + value_identity(value))
    return digest.hexdigest()
