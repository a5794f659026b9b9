"""The hash of a gate's inputs: with equal inputs the stored verdict is used again."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from graveler.clock import unix_us
from graveler.committed import diff, scan
from graveler.committed.metarange import read as read_metarange
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import CHANGES, HISTORY
from graveler.gates.gate import Gate
from graveler.gates.statistics import last_touch
from graveler.names import path_key
from graveler.reads.listing import within
from graveler.reads.stores import Stores
from graveler.records import encode_json

_GOING_ON: Final = frozenset({"publish", "merge", "commit", "cherry-pick"})
_GONE: Final = bytes(32)


def inputs(candidate: Candidate, gate: Gate, rule: str) -> str:
    """Return the hash of a gate's fingerprint and of all inputs that it declares.

    The action is part of it: a gate may allow removals only in a revert.

    Args:
        candidate: The candidate to judge.
        gate: The gate.
        rule: The gate's fingerprint.
    """
    return sha256(
        encode_json(
            {
                "gate": gate.name,
                "severity": gate.severity,
                "code": rule,
                "prefixes": gate.prefixes,
                "tree": _changes(candidate, gate)
                if CHANGES in gate.inputs
                else _content(candidate, gate),
                "read": {
                    name: _READ[name](candidate, gate) for name in gate.inputs if name in _READ
                },
                "into": candidate.into,
                "action": _action(candidate),
            }
        )
    ).hexdigest()


_READ: Final[Mapping[str, Callable[[Candidate, Gate], Any]]] = {
    "message": lambda candidate, _: candidate.commit.message,
    "committer": lambda candidate, _: candidate.commit.committer,
    "metadata": lambda candidate, _: dict(candidate.commit.metadata),
    "parents": lambda candidate, _: list(candidate.commit.parents),
    "created": lambda candidate, _: unix_us(candidate.commit.created),
    "commit": lambda candidate, _: candidate.commit.id,
    "target": lambda candidate, _: candidate.target.id,
    "run": lambda candidate, _: [candidate.run.key, dict(candidate.run.metadata)],
    "attempt": lambda candidate, _: candidate.run.attempt,
    HISTORY: lambda candidate, gate: last_touch(
        candidate.repository, candidate.target.id, gate.prefixes
    ),
}


def _action(candidate: Candidate) -> list[str]:
    """Return the action; one that can move the branch to any commit is judged for each move."""
    if candidate.action in _GOING_ON:
        return [candidate.action]
    return [candidate.action, candidate.commit_id, candidate.target.id]


def _trees(candidate: Candidate) -> tuple[str, str]:
    return candidate.commit.metarange, candidate.target.metarange


def _content(candidate: Candidate, gate: Gate) -> list[list[str]]:
    return [
        [content(candidate.repository, tree, prefix) for tree in _trees(candidate)]
        for prefix in gate.prefixes
    ]


def _changes(candidate: Candidate, gate: Gate) -> str:
    after, before = _trees(candidate)
    digest = sha256()
    for prefix in gate.prefixes:
        digest.update(b"some" if candidate.has_below(prefix) else b"none")
        raw = path_key(prefix) if prefix else b""
        for change in diff(candidate.repository.ranges, before, after, prefix=raw):
            for value in (change.left_value, change.right_value):
                digest.update(_GONE if value is None else sha256(value).digest())
            digest.update(sha256(change.key).digest())
    return digest.hexdigest()


def content(stores: Stores, metarange: str, prefix: str) -> str:
    """Return a hash of the paths and value records of a tree below a prefix.

    A range that is entirely below the prefix is identified by its id and not opened; only the
    ranges at the edges are read. Trees with the same content in different ranges therefore have
    different hashes, and are judged once more than necessary.
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
            digest.update(sha256(key).digest() + sha256(value).digest())
    return digest.hexdigest()
