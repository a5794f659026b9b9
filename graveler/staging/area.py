"""Where staged writes live: partition ``staging:<repository uid>:<token>``, key = path."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import takewhile
from operator import itemgetter
from typing import Final, TypeVar

from graveler.clock import IdSource
from graveler.errors import PreconditionFailedError
from graveler.kv.store import MAX_KEYS, KVStore
from graveler.process import Background, batches, refuse_writes
from graveler.values import VOID

T = TypeVar("T")


def _aged(age: int, items: Iterable[tuple[bytes, T]]) -> Iterator[tuple[bytes, int, T]]:
    return ((key, age, value) for key, value in items)


def combine(newest_first: Sequence[Iterable[tuple[bytes, T]]]) -> Iterator[tuple[bytes, T]]:
    """Return (key, staged write) ascending; of equal keys only the one of the newest stream.

    Args:
        newest_first: Streams of (key, staged write), each ascending without repeats.
    """
    if len(newest_first) == 1:  # the usual case costs nothing
        return iter(newest_first[0])
    return _combine(newest_first)


def _combine(newest_first: Sequence[Iterable[tuple[bytes, T]]]) -> Iterator[tuple[bytes, T]]:
    last = None
    streams = [_aged(age, items) for age, items in enumerate(newest_first)]
    for key, _, value in merge(*streams, key=itemgetter(0, 1)):
        if key != last:
            last = key
            yield key, value


HOLD: Final = "hold-"
"""Start of the tokens that no branch names, under which entries are kept for a moment."""

_LAID: Final = "laid-"
_REMEMBERED: Final = 1_000


def laid_token(ids: IdSource) -> str:
    """Return a new token for the voids that a commit puts over older staged writes.

    It follows the tokens of these writes in the branch's record.
    """
    return f"{_LAID}{ids.unique()}"


def is_laid(token: str) -> bool:
    """Return whether the token holds voids."""
    return token.startswith(_LAID)


def _without_voids(
    tokens: Sequence[str], writes: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    if any(map(is_laid, tokens)):
        return (item for item in writes if item[1] != VOID)
    return writes


class StagingArea:
    """The staged writes of one repository, by token.

    Values are opaque here except `VOID`. Under a laid token it replaces all older writes of its key, and is
    never returned.

    Attributes:
        background: Runs the clean-up.
    """

    def __init__(self, kv: KVStore, uid: str, background: Background) -> None:
        self._kv = kv
        self.background = background
        self._prefix = f"staging:{uid}:"
        self._filled: set[str] = set()

    def set(self, token: str, key: bytes, value: bytes) -> None:
        """Stage one write under `token`."""
        refuse_writes("a staged write")
        self._kv.set(self._prefix + token, key, value)
        self._fill(token)

    def set_many(self, token: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Stage many writes under `token`, in as few round trips as the driver can."""
        refuse_writes("staged writes")
        self._kv.set_many(self._prefix + token, items)
        self._fill(token)

    def withdraw(self, token: str, key: bytes, value: bytes) -> None:
        """Remove a staged write unless another one has taken its place.

        Raises:
            OutcomeUnknownError: The reply was lost.
        """
        self._filled.discard(token)
        stored = self._kv.get(self._prefix + token, key)
        if stored is None or stored.value != value:
            return
        with suppress(PreconditionFailedError):
            self._kv.delete_if(self._prefix + token, key, stored.predicate)

    def remove(self, token: str, key: bytes) -> None:
        """Remove what is staged at a key under a token that no other process writes to."""
        self._filled.discard(token)
        self._kv.delete(self._prefix + token, key)

    def get(self, newest_first: Sequence[str], key: bytes) -> bytes | None:
        """Return the newest staged write of `key` among the tokens, or None; mostly one round trip."""
        for tokens in batches(newest_first, MAX_KEYS):
            for stored in self._kv.get_many([(self._prefix + token, key) for token in tokens]):
                if stored is not None:
                    return None if stored.value == VOID else stored.value
        return None

    def get_many(self, newest_first: Sequence[str], keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the newest staged write of each key that has one among the tokens."""
        if len(newest_first) * len(keys) <= MAX_KEYS:
            places = [(token, key) for key in keys for token in reversed(newest_first)]
            found = self._kv.get_many([(self._prefix + token, key) for token, key in places])
            writes = zip(places, found, strict=True)
            newest = {key: stored.value for (_, key), stored in writes if stored is not None}
            return {key: write for key, write in newest.items() if write != VOID}
        wanted, last = set(keys), max(keys)
        staged = takewhile(lambda item: item[0] <= last, self.scan(newest_first, min(keys)))
        return {key: write for key, write in staged if key in wanted}

    def scan(
        self, newest_first: Sequence[str], start: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, newest staged write) of the tokens from `start` on, ascending."""
        return _without_voids(newest_first, self._combined(newest_first, start))

    def keys(self, newest_first: Sequence[str], start: bytes = b"") -> Iterator[bytes]:
        """Yield the keys at which the tokens have a staged write or a void, ascending."""
        return (key for key, _ in self._combined(newest_first, start))

    def _combined(self, newest_first: Sequence[str], start: bytes) -> Iterator[tuple[bytes, bytes]]:
        return combine([self._kv.scan(self._prefix + token, start) for token in newest_first])

    def all(self, newest_first: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
        """Yield what `scan` yields, to a caller that reads all of it."""
        streams = [self._kv.scan_all(self._prefix + token) for token in newest_first]
        return _without_voids(newest_first, combine(streams))

    def is_filled(self, token: str) -> bool:
        """Return whether this process has staged a write under `token`, which is then not empty.

        Only withdrawals and drops remove writes, and drops come when no branch names the token.
        """
        return token in self._filled

    def _fill(self, token: str) -> None:
        if len(self._filled) >= _REMEMBERED:
            self._filled.clear()
        self._filled.add(token)

    def is_empty(self, token: str) -> bool:
        """Return whether nothing is staged under `token`."""
        return next(self._kv.scan(self._prefix + token), None) is None

    def tokens(self) -> Iterator[str]:
        """Yield the tokens under which something is staged, those that no branch names too."""
        for partition in self._kv.partitions(self._prefix):
            yield partition[len(self._prefix) :]

    def drop(self, *tokens: str) -> None:
        """Remove all that is staged under tokens that no branch names any more.

        It runs in the background: what a dead process leaves behind is garbage that nothing reads.
        """
        for token in tokens:
            self._filled.discard(token)
            self.background.run(partial(self._kv.drop, self._prefix + token))
