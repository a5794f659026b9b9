"""What a simulation replays: a tree to start from, and commits of sorted changes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from xxhash import xxh3_128_digest

from graveler.committed import StagedChange
from graveler.model import Entry
from graveler.values import encode_entry, encode_value

_IDENTITY: Final = 32
_VERSION_BYTES: Final = 8
_SHORT: Final = 128

VALUE_BYTES: Final = len(
    encode_entry(Entry("", f"data/{'0' * 32}", 123_456_789, f"sha256:{'0' * 64}", computed=True))[1]
)
"""Of the value record of a file that was written through graveler, about."""

Commits = Callable[[], Iterable[Sequence[StagedChange]]]
"""Called once for each policy: returns the changes of each commit, in key order."""


@dataclass(frozen=True, slots=True)
class History:
    """A history that can be replayed any number of times.

    Attributes:
        name: Of the pattern, or of the file or branch that it was read from.
        about: Its sizes, as text.
        base: Called once for each policy: returns the tree to start from as changes, in key order.
        commits: The commits on that tree.
        other: The commits of a second branch on that tree, which is then merged; None for none.
    """

    name: str
    about: str
    base: Callable[[], Iterable[StagedChange]]
    commits: Commits
    other: Commits | None = None


@lru_cache(maxsize=1 << 12)
def _value(version: int, size: int) -> bytes:
    """Return a value record; entries of one version and size share it, so it costs no memory."""
    identity = version.to_bytes(_VERSION_BYTES).rjust(_IDENTITY, b"\0")
    short = size - len(encode_value(identity, b""))
    # from 128 bytes on, the length of the data takes a byte more
    return encode_value(identity, bytes(max(0, short if short < _SHORT else short - 1)))


def written(key: bytes, version: int = 0, size: int = VALUE_BYTES) -> StagedChange:
    """Return the change that puts a version of an entry at a key.

    Its ids and its content are invented: equal for equal arguments only.

    Args:
        key: The key.
        version: Of the entry at that key.
        size: Bytes of its value record.
    """
    # the version is no seed: short keys with fitting seeds have equal hashes
    digest = xxh3_128_digest(key + version.to_bytes(8, "big", signed=True))
    return key, digest * 2, _value(version, size)


def removed(key: bytes) -> StagedChange:
    """Return the change that removes a key."""
    return key, None, None


def sorted_changes(changes: Iterable[StagedChange]) -> list[StagedChange]:
    """Return changes in key order."""
    return sorted(changes, key=lambda change: change[0])


def nothing() -> Iterator[StagedChange]:
    """Return the tree without entries."""
    return iter(())
