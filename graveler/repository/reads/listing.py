"""Listings: folding by a delimiter, and staged writes laid over a committed tree."""

from collections.abc import Callable, Iterator

from graveler.model import Entry, Prefix
from graveler.names import path_key
from graveler.records import decode_entry, staged_value

Scan = Callable[[bytes], Iterator[tuple[bytes, bytes]]]
"""One version of a tree below a prefix: yields (key, value record) from the key given on."""


def within(prefix: bytes, items: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the items until a key leaves `prefix`."""
    for item in items:
        if not item[0].startswith(prefix):
            return
        yield item


def overlay(
    staged: Iterator[tuple[bytes, bytes]], committed: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value record) of `committed` with `staged` writes and deletions applied.

    Args:
        staged: (key, staged write), ascending.
        committed: (key, value record), ascending.
    """
    below = next(committed, None)
    for key, write in staged:
        while below is not None and below[0] < key:
            yield below
            below = next(committed, None)
        if below is not None and below[0] == key:
            below = next(committed, None)
        value = staged_value(write)
        if value is not None:
            yield key, value
    if below is not None:
        yield below
        yield from committed


def _after(prefix: bytes) -> bytes | None:
    """Return the least key greater than every key that starts with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None


def first_key(prefix: str, after: str = "") -> bytes:
    """Return the least key of a listing that starts with `prefix` and leaves out up to `after`."""
    first = path_key(prefix) if prefix else b""
    return max(first, path_key(after) + b"\0") if after else first


def list_entries(
    scan: Scan, *, prefix: str = "", after: str = "", delimiter: str = ""
) -> Iterator[Entry | Prefix]:
    """Yield entries whose path starts with `prefix`, in byte order.

    Args:
        scan: The tree below `prefix`, or below the start of it.
        prefix: Start of the paths.
        after: Leave out paths up to and including this one.
        delimiter: Fold paths that hold it behind `prefix` into one :class:`Prefix` each.
    """
    raw_prefix = first_key(prefix)
    fold = delimiter.encode()
    start: bytes | None = first_key(prefix, after)
    while start is not None:
        position, start = start, None
        for key, value in within(raw_prefix, scan(position)):
            cut = key.find(fold, len(raw_prefix)) if fold else -1
            if cut < 0:
                yield decode_entry(key, value)
                continue
            folded = key[: cut + len(fold)]
            if not after or folded > path_key(after):
                yield Prefix(folded.decode())
            start = _after(folded)  # what is below needs no reading
            break
