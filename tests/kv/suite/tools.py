"""Helpers of the key-value suite."""

from collections.abc import Callable
from typing import ClassVar

from graveler.kv.store import ABSENT, MAX_KEY_BYTES, KVStore, Stored

EVERY_BYTE = [bytes([byte]) for byte in range(256)]
TRICKY_NAMES = (
    *("a", "ab", "b", "a/b", "a/", "/", "A", "a%", "a_", "a:b", "a.b", " a", "'"),
    *("\x01", "\x7f", "\u00e9", "e\u0301", "\U0001f980", "\uffff", "x" * MAX_KEY_BYTES),
)
_TOO_LONG = MAX_KEY_BYTES + 1
BAD_PARTITIONS = ("", "x" * _TOO_LONG, "\u00e9" * 600, "a\0b", "\ud800")
BAD_KEYS = (b"", b"x" * _TOO_LONG)
THREADS = 8


class SuitePart:
    """Some of the port's promises, one test each.

    Attributes:
        takes_turns: Whether the store supports turns.
        many: Number of keys in tests of many keys: more than a page or a batch of the store holds. A
            slow store may use fewer.
        steps: Number of random calls that are compared with a model.
        snapshots: How often keys are read together while another thread writes them.
    """

    takes_turns: ClassVar[bool] = True
    many: ClassVar[int] = 12_345
    steps: ClassVar[int] = 1_000
    snapshots: ClassVar[int] = 200


def fill(store: KVStore, partition: str, keys: list[bytes]) -> None:
    """Write the keys, each with a value of its own."""
    store.set_many(partition, ((key, b"=" + key) for key in keys))


def keys_of(store: KVStore, partition: str, start: bytes = b"") -> list[bytes]:
    """Return the keys that a scan yields."""
    return [key for key, _ in store.scan(partition, start)]


def read(store: KVStore, partition: str, key: bytes) -> Stored:
    """Return a key that is there."""
    stored = store.get(partition, key)
    assert stored is not None
    return stored


def calls(store: KVStore, partition: str, key: bytes) -> list[Callable[[], object]]:
    """Return calls that take a partition and a key."""
    return [
        lambda: store.get(partition, key),
        lambda: store.get_many([(partition, key)]),
        lambda: store.set(partition, key, b"v"),
        lambda: store.set_many(partition, [(b"fine", b"v"), (key, b"v")]),
        lambda: store.set_if(partition, key, b"v", ABSENT),
        lambda: store.delete(partition, key),
    ]
