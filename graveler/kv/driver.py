"""Shared parts of drivers: argument checks, pages, chunks, and values as predicates."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, partial
from itertools import chain
from os import stat, stat_result
from os.path import samestat
from pathlib import Path
from typing import Protocol

from graveler.base.background import batches
from graveler.errors import InvalidInputError, KVOutdatedError, PreconditionFailedError
from graveler.kv.store import (
    ABSENT,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_VALUE_BYTES,
    PRESENT,
    KVStore,
    Predicate,
    Stored,
)

# `KVStore` documents the methods.
# ruff: noqa: D102

_FIRST_PAGE = 64
_LARGEST_PAGE = 1024
_CHUNK = 10_000


class _Turns(Protocol):
    def take(self, name: str, patience: float) -> AbstractContextManager[bool]:
        """Hold the turn at `name` during the block, or run it without after `patience` seconds."""


class FileIdentity:
    """Detects that other files have taken the place of open ones, or that these were removed.

    Args:
        files: Files that stay open, so that no later file has the inode of one.
    """

    def __init__(self, store: Path, *files: Path) -> None:
        self._store = store
        self._opened: dict[Path, stat_result] = {}
        for file in files:
            with suppress(OSError):
                self._opened[file] = file.stat()

    def check(self) -> None:
        """Raise KVOutdatedError if a file is no longer in its place."""
        same = False
        with suppress(OSError):
            same = all(map(samestat, map(stat, self._opened), self._opened.values()))
        if not same:
            raise KVOutdatedError(
                f"{self._store} was replaced or removed while this process had it open: this call is "
                "not acknowledged. End this process, check what is there now, and start it again; then "
                "repeat what was not acknowledged"
            )


class Driver(KVStore):
    """A store whose predicates are the values themselves.

    It checks the arguments of every call. A driver implements the methods whose names begin with an
    underscore, and need not check.
    """

    _turns: _Turns

    def get(self, partition: str, key: bytes) -> Stored | None:
        check_key(partition, key)
        return _stored(self._get(partition, key))

    def get_many(self, keys: Sequence[tuple[str, bytes]]) -> list[Stored | None]:
        if len(keys) > MAX_KEYS:
            raise InvalidInputError(f"get_many of {len(keys)} keys: give up to {MAX_KEYS}")
        for partition, key in keys:
            check_key(partition, key)
        different = list(dict.fromkeys(keys))
        if len(different) == 1:  # a single key needs no transaction
            partition, key = different[0]
            return [_stored(self._get(partition, key))] * len(keys)
        if not different:
            self._check_open()
            return []
        values = self._get_many(different)
        found = map(values.get, keys)
        return [None if value is None else Stored(value, value) for value in found]

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        self._check_open()
        return self._turns.take(name, patience)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        check_key(partition, key)
        check_value(key, value)
        self._set(partition, key, value)
        self._check_same()

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        check_partition(partition)
        self._check_open()
        for chunk in chunks(partition, items):
            self._set_chunk(partition, chunk)
            self._check_same()

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        check_key(partition, key)
        check_value(key, value)
        if predicate is not ABSENT and predicate is not PRESENT:
            check_predicate(predicate)
        try:
            held = self._set_if(partition, key, value, predicate)
        finally:  # an unknown outcome is read back
            self._check_same()
        if not held:
            raise changed(partition, key, predicate)
        return value

    def delete(self, partition: str, key: bytes) -> None:
        check_key(partition, key)
        self._delete(partition, key)
        self._check_same()

    def delete_many(self, partition: str, keys: Iterable[bytes]) -> None:
        check_partition(partition)
        self._check_open()
        for chunk in batches(keys, _CHUNK):
            for key in chunk:
                check_key(partition, key)
            self._delete_chunk(partition, list(dict.fromkeys(chunk)))
            self._check_same()

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        check_key(partition, key)
        check_predicate(predicate)
        try:
            held = self._delete_if(partition, key, predicate)
        finally:  # an unknown outcome is read back
            self._check_same()
        if not held:
            raise changed(partition, key, predicate)

    def drop(self, partition: str) -> None:
        check_partition(partition)
        self._drop(partition)
        self._check_same()

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        check_partition(partition)
        self._check_open()
        return pages(partial(self._page, partition), start)

    def scan_all(self, partition: str) -> Iterator[tuple[bytes, bytes]]:
        check_partition(partition)
        self._check_open()
        return pages(partial(self._page, partition), b"", first=_LARGEST_PAGE)

    def _check_same(self) -> None:
        """Raise KVOutdatedError if the opened file or folder is no longer the store."""
        return

    @abstractmethod
    def _check_open(self) -> None:
        """Raise StateError if the store is closed."""

    @abstractmethod
    def _get(self, partition: str, key: bytes) -> bytes | None:
        """Return the value, or None."""

    @abstractmethod
    def _get_many(self, keys: Sequence[tuple[str, bytes]]) -> Mapping[tuple[str, bytes], bytes]:
        """Return the values of the existing keys, all at one moment. Each key comes once."""

    @abstractmethod
    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        """Write the value."""

    @abstractmethod
    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        """Write these values. If a key comes twice, the last value counts."""

    @abstractmethod
    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        """Write the value if the predicate holds, in one atomic step. Return whether it held."""

    @abstractmethod
    def _delete(self, partition: str, key: bytes) -> None:
        """Remove the key."""

    def _delete_chunk(self, partition: str, chunk: list[bytes]) -> None:
        """Remove these keys. Each comes once."""
        for key in chunk:
            self._delete(partition, key)

    @abstractmethod
    def _delete_if(self, partition: str, key: bytes, value: bytes) -> bool:
        """Remove the key if it has the value, in one atomic step. Return whether it had it."""

    @abstractmethod
    def _drop(self, partition: str) -> None:
        """Remove every key of the partition."""

    @abstractmethod
    def _page(self, partition: str, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return up to `limit` items from `start` on, ascending."""


def _stored(value: bytes | None) -> Stored | None:
    return None if value is None else Stored(value, value)


@lru_cache(maxsize=1024)
def check_partition(partition: str) -> None:
    """Refuse a partition name that a driver cannot store."""
    try:
        length = len(partition.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"partition {partition!r} is not valid UTF-8 text") from error
    if not 1 <= length <= MAX_KEY_BYTES:
        raise InvalidInputError(f"partition of {length} bytes: give 1 to {MAX_KEY_BYTES}")
    if "\0" in partition:
        raise InvalidInputError(f"partition {partition!r} holds a NUL character: leave it out")


def check_key(partition: str, key: bytes) -> None:
    """Refuse a key that a driver cannot store."""
    check_partition(partition)
    if not 1 <= len(key) <= MAX_KEY_BYTES:
        raise InvalidInputError(
            f"key of {len(key)} bytes in {partition!r}: give 1 to {MAX_KEY_BYTES}"
        )


def check_value(key: bytes, value: bytes) -> None:
    """Refuse a value that is not ``bytes``, such as None or a mutable buffer, or is too large."""
    if not isinstance(value, bytes):
        raise InvalidInputError(f"value of type {type(value).__name__} for {key!r}: give bytes")
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidInputError(
            f"record {key!r} would have {len(value)} bytes: at most {MAX_VALUE_BYTES}; shorten what it "
            "holds, or remove some of it"
        )


def check_predicate(predicate: Predicate) -> None:
    """Refuse a predicate that no read returned."""
    if not isinstance(predicate, bytes):
        raise InvalidInputError(
            f"predicate of type {type(predicate).__name__}: give the predicate that get() returned"
        )


def holds(predicate: Predicate, value: bytes | None) -> bool:
    """Return whether a key with `value` satisfies `predicate`. None means an absent key."""
    if predicate is ABSENT:
        return value is None
    if predicate is PRESENT:
        return value is not None
    return bool(value == predicate)


def changed(partition: str, key: bytes, predicate: Predicate) -> PreconditionFailedError:
    """Return the error of a condition that did not hold."""
    if predicate is ABSENT:
        state = "already exists"
    elif predicate is PRESENT:
        state = "is not there"
    else:
        state = "has another value than the one read, or is gone"
    return PreconditionFailedError(f"key {key!r} in {partition!r} {state}: read it again")


def pages(
    read: Callable[[bytes, int], list[tuple[bytes, bytes]]],
    start: bytes,
    *,
    first: int = _FIRST_PAGE,
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the items of `read` page after page. No resource is held between two pages.

    Args:
        read: A function of a start and a limit. It returns at most that many items from the start
            on, ascending.
    """
    # no Python frame for each item: a scan can have millions
    return chain.from_iterable(_pages(read, start, first))


def _pages(
    read: Callable[[bytes, int], list[tuple[bytes, bytes]]], start: bytes, limit: int
) -> Iterator[list[tuple[bytes, bytes]]]:
    # Many scans need only a few items, others need all. So the second page is large.
    # A page of more than a thousand rows gains nothing and takes memory.
    while True:
        page = read(start, limit)
        last = len(page) < limit
        following = b"" if last else page[-1][0] + b"\0"  # the smallest key after the last one
        yield page
        if last:
            return
        start, limit = following, _LARGEST_PAGE


def partition_names(prefix: str, first: Callable[[str], str | None]) -> Iterator[str]:
    """Yield the names that begin with `prefix`. `first` returns the first one from a name on."""
    name = first(prefix)
    while name is not None and name.startswith(prefix):
        yield name
        name = first(name + "\x01")  # a name contains no NUL


def chunks(
    partition: str, items: Iterable[tuple[bytes, bytes]]
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield `items` in lists. Each key and value is checked.

    A chunk is complete before it is yielded, so that `items` runs outside the driver's transaction.
    """
    check_partition(partition)
    for chunk in batches(items, _CHUNK):
        for key, value in chunk:
            if not 1 <= len(key) <= MAX_KEY_BYTES:
                check_key(partition, key)
            if type(value) is not bytes or len(value) > MAX_VALUE_BYTES:
                check_value(key, value)
        yield chunk
