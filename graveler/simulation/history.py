"""The history that a simulation replays: an initial tree, and commits of sorted changes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from xxhash import xxh3_128_digest

from graveler.committed.apply import StagedChange
from graveler.model import Entry
from graveler.values import encode_entry, encode_value

_IDENTITY = 32
_VERSION_BYTES = 8
_SHORT = 128

VALUE_BYTES = len(
    encode_entry(Entry("", f"data/{'0' * 32}", 123_456_789, f"sha256:{'0' * 64}", computed=True))[1]
)
"""Approximate size of the value record of a file that was written through graveler."""

Commits = Callable[[], Iterable[Sequence[StagedChange]]]
"""Called once for each policy; returns the changes of each commit in key order."""


@dataclass(frozen=True, slots=True)
class History:
    """A history that can be replayed any number of times.

    Attributes:
        base: Called once for each policy; returns the initial tree as changes in key order.
    """

    name: str
    about: str
    base: Callable[[], Iterable[StagedChange]]
    commits: Commits
    other: Commits | None = None


@lru_cache(maxsize=1 << 12)
def _value(version: int, size: int) -> bytes:
    """Return a value record; entries of one version and size share it, which saves memory."""
    identity = version.to_bytes(_VERSION_BYTES).rjust(_IDENTITY, b"\0")
    short = size - len(encode_value(identity, b""))
    # from 128 bytes on, the length of the data takes one more byte
    return encode_value(identity, bytes(max(0, short if short < _SHORT else short - 1)))


def written(key: bytes, version: int = 0, size: int = VALUE_BYTES) -> StagedChange:
    """Return the change that puts a version of an entry at a key.

    Its ids and its content are invented. They are equal only for equal arguments.
    """
    # the version is not a seed: short keys with certain seeds have equal hashes
    digest = xxh3_128_digest(key + version.to_bytes(8, "big", signed=True))
    return key, digest * 2, _value(version, size)


def removed(key: bytes) -> StagedChange:
    """Return the change that removes a key."""
    return key, None, None


def sorted_changes(changes: Iterable[StagedChange]) -> list[StagedChange]:
    """Return changes in key order."""
    return sorted(changes, key=lambda change: change[0])


def nothing() -> Iterator[StagedChange]:
    """Return the changes of the empty tree: none."""
    return iter(())
