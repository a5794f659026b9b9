"""Mutable metadata: the key-value store interface and its drivers."""

from graveler.kv.registry import open_kv
from graveler.kv.store import (
    ABSENT,
    MAX_KEY_BYTES,
    PRESENT,
    KVStore,
    Predicate,
    Stored,
)

__all__ = [
    "ABSENT",
    "MAX_KEY_BYTES",
    "PRESENT",
    "KVStore",
    "Predicate",
    "Stored",
    "open_kv",
]
