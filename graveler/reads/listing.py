"""Listings: folding by a delimiter, and a committed tree with staged writes.

A listing copies the sorted staged rows once: into memory, or into a temporary file if they are many.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from struct import Struct
from tempfile import SpooledTemporaryFile
from typing import Self

from graveler.base.names import path_key
from graveler.committed.cache.flat import Run
from graveler.model import Entry, Prefix
from graveler.values import deferred_entries, deferred_entry, staged_value

Row = tuple[bytes, bytes]
_ROWS = 1_024


class Scan:
    """One version of a tree below a prefix. It can be read repeatedly, from any key on."""

    def __init__(
        self,
        rows: Callable[[bytes], Iterator[Row]],
        runs: Callable[[bytes], Iterator[Run]] | None = None,
        origin: str = "",
    ) -> None:
        self.origin = origin
        self._rows = rows
        self._runs = runs

    def __call__(self, start: bytes = b"") -> Iterator[Row]:
        """Yield (key, value record) from the key `start` on."""
        return self._rows(start)

    def runs(self, start: bytes = b"") -> Iterator[Run]:
        """Yield the rows from the key `start` on in batches."""
        if self._runs is not None:
            return self._runs(start)
        rows = self._rows(start)
        return map(Run.of, iter(lambda: list(islice(rows, _ROWS)), []))

    def entries(self, start: bytes = b"") -> Iterator[Entry]:
        """Yield the entries from the key `start` on."""
        for run in self.runs(start):
            yield from deferred_entries(*run.columns(), self.origin)


def within(prefix: bytes, items: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the items until a key leaves `prefix`."""
    for item in items:
        if not item[0].startswith(prefix):
            return
        yield item


def overlay(
    staged: Iterator[tuple[bytes, bytes]], committed: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value record) of `committed` with `staged` writes and deletions applied."""
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
    """Return the smallest key after all keys that start with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None


def first_key(prefix: str, after: str = "") -> bytes:
    """Return the smallest key of a listing of `prefix` that starts after `after`."""
    first = path_key(prefix) if prefix else b""
    return max(first, path_key(after) + b"\0") if after else first


def list_entries(
    scan: Scan, *, prefix: str = "", after: str = "", delimiter: str = ""
) -> Iterator[Entry | Prefix]:
    """Yield entries whose path starts with `prefix`, in byte order."""
    if not delimiter:
        yield from scan.entries(first_key(prefix, after))
        return
    raw_prefix = first_key(prefix)
    fold = delimiter.encode()
    start: bytes | None = first_key(prefix, after)
    while start is not None:
        position, start = start, None
        for key, value in within(raw_prefix, scan(position)):
            cut = key.find(fold, len(raw_prefix))
            if cut < 0:
                yield deferred_entry(key, value, scan.origin)
                continue
            folded = key[: cut + len(fold)]
            if not after or folded > path_key(after):
                yield Prefix(folded.decode())
            start = _after(folded)  # the folded paths are skipped
            break


_IN_MEMORY_BYTES = 8 << 20
_BLOCK_BYTES = 64 << 10
_LENGTHS = Struct(">II")


class Spool:
    """Rows (key, value) in ascending order of their keys, which can be read repeatedly.

    Rows are kept in blocks of 64 KiB. The first key of each block stays in memory, so that reading
    can start anywhere. A spool is for one thread.
    """

    def __init__(self, *, in_memory_bytes: int = _IN_MEMORY_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=in_memory_bytes)
        self._firsts: list[bytes] = []
        self._ends: list[int] = []

    def fill(self, rows: Iterable[Row]) -> None:
        """Replace the rows by `rows`, given in ascending order of their keys."""
        self._file.seek(0)
        self._file.truncate()
        self._firsts, self._ends = [], []
        block = bytearray()
        for key, value in rows:
            if not block:
                self._firsts.append(key)
            block += _LENGTHS.pack(len(key), len(value)) + key + value
            if len(block) >= _BLOCK_BYTES:
                self._append(block)
                block = bytearray()
        if block:
            self._append(block)

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return not self._firsts

    def rows(self, start: bytes = b"") -> Iterator[Row]:
        """Yield the rows from the key `start` on."""
        for number in range(max(bisect_right(self._firsts, start) - 1, 0), len(self._firsts)):
            for row in self._block(number):
                if row[0] >= start:
                    yield row

    def _append(self, block: bytearray) -> None:
        self._file.write(block)
        self._ends.append(self._file.tell())

    def _block(self, number: int) -> Iterator[Row]:
        begin = self._ends[number - 1] if number else 0
        self._file.seek(begin)
        block = self._file.read(self._ends[number] - begin)
        at = 0
        while at < len(block):
            key_size, value_size = _LENGTHS.unpack_from(block, at)
            middle = at + _LENGTHS.size + key_size
            at_next = middle + value_size
            yield block[middle - key_size : middle], block[middle:at_next]
            at = at_next

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
