"""What drivers share: pages of a scan, chunks of ``set_many``, and the value as the predicate."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from graveler.errors import InvalidInputError, PreconditionFailedError
from graveler.kv.store import (
    ABSENT,
    MAX_KEY_BYTES,
    PRESENT,
    Predicate,
    check_key,
    check_partition,
    check_value,
)
from graveler.process import batches


def check_predicate(predicate: Predicate) -> None:
    """Refuse a predicate that can never hold.

    Raises:
        InvalidInputError: It is neither ``ABSENT`` nor ``PRESENT`` nor a value.
    """
    if predicate is not ABSENT and predicate is not PRESENT and not isinstance(predicate, bytes):
        raise InvalidInputError(
            f"predicate of type {type(predicate).__name__}: give ABSENT, PRESENT or the "
            "predicate that get() returned"
        )


def check_read_predicate(predicate: Predicate) -> None:
    """Refuse a predicate of no value that was read.

    Raises:
        InvalidInputError: It is no value.
    """
    if not isinstance(predicate, bytes):
        raise InvalidInputError(
            f"predicate of type {type(predicate).__name__}: give the predicate that get() returned"
        )


def holds(predicate: Predicate, value: bytes | None) -> bool:
    """Return whether a key with `value` (None: absent) satisfies `predicate`."""
    if predicate is ABSENT:
        return value is None
    if predicate is PRESENT:
        return value is not None
    return bool(value == predicate)


def changed(partition: str, key: bytes, predicate: Predicate) -> PreconditionFailedError:
    """Return the error of a condition that did not hold."""
    if predicate is ABSENT:
        found = "is there already"
    elif predicate is PRESENT:
        found = "is not there"
    else:
        found = "has another value than the one read, or is gone"
    return PreconditionFailedError(f"key {key!r} in {partition!r} {found}: read it again")


_FIRST_PAGE: Final = 64
_LARGEST_PAGE: Final = 1024
_CHUNK: Final = 10_000
_GROUP: Final = 500


def pages(
    read: Callable[[bytes, int], list[tuple[bytes, bytes]]], start: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Yield what `read` gives, page after page, holding nothing in between.

    Args:
        read: Given a start and a limit, returns up to so many items from there on, ascending.
        start: Where the first page starts.
    """
    # Many scans need a handful of items, some need millions: pages grow. Beyond a thousand
    # rows a larger page gains nothing, and takes memory.
    limit = _FIRST_PAGE
    while True:
        page = read(start, limit)
        yield from page
        if len(page) < limit:
            return
        start = page[-1][0] + b"\0"  # the smallest key after the last one
        limit = min(limit * 4, _LARGEST_PAGE)


def chunks(
    partition: str, items: Iterable[tuple[bytes, bytes]]
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield `items` in lists, each key and value checked.

    A chunk is complete before it is yielded: whatever `items` does to make its next
    item, it does outside the driver's transaction.
    """
    check_partition(partition)
    for chunk in batches(items, _CHUNK):
        for key, value in chunk:
            if not 1 <= len(key) <= MAX_KEY_BYTES:
                check_key(partition, key)
            if type(value) is not bytes:
                check_value(key, value)
        yield chunk


def groups(partitions: Sequence[str], key: bytes, size: int = _GROUP) -> Iterator[list[str]]:
    """Yield the different ones of `partitions`, up to `size` at once, each checked with `key`."""
    for partition in partitions:
        check_key(partition, key)
    return batches(dict.fromkeys(partitions), size)
