"""The storage of staged writes: partition ``staging:<repository uid>:<token>``, key = path."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import takewhile
from operator import itemgetter
from threading import local
from typing import NamedTuple, TypeVar

from graveler.base.background import Background, batches
from graveler.base.clock import IdSource
from graveler.base.read_only import refuse_writes
from graveler.errors import PreconditionFailedError
from graveler.kv.store import MAX_KEYS, KVStore
from graveler.values import VOID, write_start

T = TypeVar("T")


def _aged(age: int, items: Iterable[tuple[bytes, T]]) -> Iterator[tuple[bytes, int, T]]:
    return ((key, age, value) for key, value in items)


def combine(newest_first: Sequence[Iterable[tuple[bytes, T]]]) -> Iterator[tuple[bytes, T]]:
    """Return (key, staged write) ascending. Of equal keys, the newest stream wins.

    Args:
        newest_first: Streams of (key, staged write), each ascending without repeated keys.
    """
    if len(newest_first) == 1:  # the usual case needs no merge
        return iter(newest_first[0])
    return _combine(newest_first)


def _combine(newest_first: Sequence[Iterable[tuple[bytes, T]]]) -> Iterator[tuple[bytes, T]]:
    last = None
    streams = [_aged(age, items) for age, items in enumerate(newest_first)]
    for key, _, value in merge(*streams, key=itemgetter(0, 1)):
        if key != last:
            last = key
            yield key, value


HOLD = "hold-"
"""Prefix of tokens that no branch names, for entries that are kept for a short time."""

_LAID = "laid-"
_REMEMBERED = 1_000
_NOTED = 64


def laid_token(ids: IdSource) -> str:
    """Return a new token for the voids with which a commit hides older staged writes."""
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


class Staged(NamedTuple):
    """A token under which a thread has written.

    Attributes:
        acknowledged: Whether the token was live after the write.
    """

    token: str
    head: str
    acknowledged: bool


class StagingArea:
    """The staged writes of one repository, by token.

    Values are opaque here, except `VOID`. Under a laid token, a void replaces all older writes of
    its key, and is never returned.
    """

    def __init__(self, kv: KVStore, uid: str, background: Background) -> None:
        self._kv = kv
        self.background = background
        self._prefix = f"staging:{uid}:"
        self._filled: set[str] = set()
        self._by_thread = local()

    def note(self, branch: str, staged: Staged) -> None:
        """Note a write of this thread, for its next commit."""
        noted = self._by_thread.__dict__.setdefault(branch, deque(maxlen=_NOTED))
        if staged not in noted:
            noted.append(staged)

    def noted(self, branch: str) -> tuple[Staged, ...]:
        """Return the latest writes of this thread since its last commit, and forget them."""
        return tuple(self._by_thread.__dict__.pop(branch, ()))

    def set(self, token: str, key: bytes, value: bytes) -> None:
        """Stage one write under `token`."""
        refuse_writes("a staged write")
        self._kv.set(self._prefix + token, key, value)
        self._fill(token)

    def set_many(self, token: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Stage many writes under `token`, in as few round trips as possible."""
        refuse_writes("staged writes")
        self._kv.set_many(self._prefix + token, items)
        self._fill(token)

    def withdraw(self, token: str, key: bytes, value: bytes, new: bytes | None = None) -> None:
        """Remove a staged write, or put `new` in its place, unless another one has replaced it."""
        self._filled.discard(token)
        stored = self._kv.get(self._prefix + token, key)
        if stored is None:
            return
        start = write_start(stored.value)
        if stored.value[start:] != value[write_start(value) :]:
            return
        with suppress(PreconditionFailedError):
            if new is None:
                self._kv.delete_if(self._prefix + token, key, stored.predicate)
            else:
                signed = stored.value[:start] + new
                self._kv.set_if(self._prefix + token, key, signed, stored.predicate)

    def remove_many(self, token: str, keys: Iterable[bytes]) -> None:
        """Remove staged writes under a sealed token, in as few round trips as possible."""
        self._filled.discard(token)
        self._kv.delete_many(self._prefix + token, keys)

    def get(self, newest_first: Sequence[str], key: bytes) -> bytes | None:
        """Return the newest staged write of `key`, or None, mostly in one round trip."""
        for tokens in batches(newest_first, MAX_KEYS):
            for stored in self._kv.get_many([(self._prefix + token, key) for token in tokens]):
                if stored is not None:
                    return None if stored.value == VOID else stored.value
        return None

    def get_many(self, newest_first: Sequence[str], keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the newest staged write of each key that has one under the tokens."""
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
        """Yield the same as `scan`, for a caller that reads all of it."""
        streams = [self._kv.scan_all(self._prefix + token) for token in newest_first]
        return _without_voids(newest_first, combine(streams))

    def is_filled(self, token: str) -> bool:
        """Return whether this process has staged a write under `token`, so that it is not empty.

        Only withdrawals and drops remove writes. A token is dropped only when no branch names it.
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
        """Yield all tokens with staged writes, including those that no branch names."""
        for partition in self._kv.partitions(self._prefix):
            yield partition[len(self._prefix) :]

    def drop(self, *tokens: str) -> None:
        """Remove all staged writes under tokens that no branch names any more."""
        for token in tokens:
            self._filled.discard(token)
            self.background.run(partial(self._kv.drop, self._prefix + token))
