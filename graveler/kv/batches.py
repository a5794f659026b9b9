"""Pages of a scan, chunks of ``set_many`` and groups of ``get_each``, for drivers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from graveler.batches import batches
from graveler.kv.store import MAX_KEY_BYTES, check_key, check_partition, check_value

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
