"""Sorted rows that one listing copies once: in memory, beyond a bound in a temporary file."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from struct import Struct
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

_IN_MEMORY_BYTES: Final = 8 << 20
_BLOCK_BYTES: Final = 64 << 10
_LENGTHS: Final = Struct(">II")

_Row = tuple[bytes, bytes]


class Spool:
    """Rows (key, value) in ascending order of their keys, read as often as wanted.

    Rows are kept in blocks of 64 KiB; the first key of each block stays in memory, so that a
    reading can begin anywhere. Not for several threads.

    Args:
        in_memory_bytes: What exceeds it goes to an unnamed file in the temporary folder.
    """

    def __init__(self, *, in_memory_bytes: int = _IN_MEMORY_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=in_memory_bytes)  # noqa: SIM115 - see __exit__
        self._firsts: list[bytes] = []
        self._ends: list[int] = []

    def fill(self, rows: Iterable[_Row]) -> None:
        """Keep these rows, in ascending order of their keys, instead of what was kept."""
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

    def rows(self, start: bytes = b"") -> Iterator[_Row]:
        """Yield the rows from the key `start` on."""
        for number in range(max(bisect_right(self._firsts, start) - 1, 0), len(self._firsts)):
            for row in self._block(number):
                if row[0] >= start:
                    yield row

    def _append(self, block: bytearray) -> None:
        self._file.write(block)
        self._ends.append(self._file.tell())

    def _block(self, number: int) -> Iterator[_Row]:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
