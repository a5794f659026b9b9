"""Fast decoding of many blocks at once with numpy: their records column by column.

The first entries of all runs are decoded together, then the second ones, and so on. An uncommon
form and any damage are left to `graveler.sstable.block`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate, islice, starmap
from operator import lt
from typing import Any, NamedTuple

import numpy

from graveler.model import BLOCK_BYTES, KEY_BYTES
from graveler.sstable.block import KEY_TRAILER_BYTES, Columns
from graveler.sstable.compression import decompress_into, decompressed_size
from graveler.sstable.format import DamageError

_ROWS = 256
_LONGEST_RUN = 64
_LONG = 0x80
_PUT = 1
_LOW = 0x7F
_PADDING = 8
_LONG_KEY = 0x8080


class _Places(NamedTuple):
    """Where the entries are. All but `counts` have one item for each entry."""

    counts: Any
    shared: Any
    rest: Any
    trailer: Any
    value: Any
    end: Any
    lengths: Any


class Blocks:
    """Consecutive blocks of a table."""

    def __init__(self, stored: Sequence[tuple[int, bytes]]) -> None:
        *bases, size = accumulate(starmap(decompressed_size, stored), initial=0)
        self._bases = bases
        self._starts: list[Any] = []  # for each block: where its runs start
        self._ends: list[int] = []  # for each block: where its last run ends
        # the buffer is filled in place and becomes bytes without a copy
        data = BytesIO(bytes(size + _PADDING))
        with data.getbuffer() as memory:
            for base, stop, each in zip(bases, [*bases[1:], size], stored, strict=True):
                with memory[base:stop] as block:
                    decompress_into(*each, block)
                    self._add(base, block)
        self._data = data.getvalue()

    def _add(self, base: int, block: memoryview) -> None:
        count = int.from_bytes(block[-4:], "little")
        end = len(block) - 4 - 4 * count
        if count < 1 or end < 1:
            raise DamageError(f"{count} restarts in a block of {len(block)} bytes")
        self._starts.append(numpy.frombuffer(block, "<u4", count, end) + base)
        self._ends.append(base + end)

    def columns(self, separators: Sequence[bytes], after: bytes) -> Iterator[tuple[int, Columns]]:
        """Yield records, each time with the number of blocks that are complete by then.

        Args:
            after: Every key is greater than this.
        """
        # the first run of each block
        firsts = [0, *accumulate(map(len, self._starts))]
        starts = numpy.concatenate(self._starts).astype("i4")
        stops = numpy.append(starts[1:], starts[:1])
        stops[numpy.subtract(firsts[1:], 1)] = self._ends
        if (starts >= stops).any() or (starts[firsts[:-1]] != self._bases).any():
            return  # restarts do not ascend from the start of the block
        data = self._data
        places = _places(numpy.frombuffer(data, "u1"), starts, stops)
        if places is None:
            return
        rows = [0, *places.counts.cumsum()[numpy.subtract(firsts[1:], 1)].tolist()]
        bottoms = [after, *separators]
        key = after
        # a few rows at a time, so that the memory of their keys and values is reused
        for first in range(0, rows[-1], _ROWS):
            stop = min(first + _ROWS, rows[-1])
            found = _rows(data, places, slice(first, stop), key)
            keys, last, key = found.keys, key, found.keys[-1]
            begin = range(bisect_left(rows, first), bisect_left(rows, stop))
            end = range(bisect_right(rows, first), bisect_right(rows, stop))
            if (
                keys[0] <= last
                or not all(map(lt, keys, islice(keys, 1, None)))
                or any(keys[rows[block] - first] <= bottoms[block] for block in begin)
                or any(keys[rows[block] - 1 - first] > bottoms[block] for block in end)
            ):
                return
            yield end.stop - 1, found


def _rows(data: bytes, places: _Places, some: slice, key: bytes) -> Columns:
    """Return the entries of the slice `some`. `key` is the key before them."""
    shared, rest, trailer, value, end = (part[some].tolist() for part in places[1:6])
    return Columns(
        [
            key := key[:common] + data[begin:stop]
            for common, begin, stop in zip(shared, rest, trailer, strict=True)
        ],
        [data[begin:stop] for begin, stop in zip(value, end, strict=True)],
        places.lengths[some].tobytes(),
    )


def _places(data: Any, at: Any, stops: Any) -> _Places | None:
    """Return where the entries of all runs are, or None if an entry has an uncommon form."""
    count = len(at)
    words = numpy.ndarray((len(data) - 3,), "<i4", data, strides=(1,))
    runs = numpy.arange(count, dtype="i4")  # the runs with entries left
    steps: list[tuple[Any, ...]] = []
    while len(runs):
        if len(steps) == _LONGEST_RUN:
            return None
        shared, rest, length, begin = _header(data, words, at)
        at = begin + rest + length
        if (at > stops).any():
            return None
        steps.append((runs, shared, rest, begin, at))
        going = at < stops
        if not going.all():
            runs, at, stops = runs[going], at[going], stops[going]
    # arrays with an item for each entry hold small numbers, and are released early
    step = numpy.repeat(numpy.arange(len(steps), dtype="i4"), [len(each[0]) for each in steps])
    run, shared, rest, begin, end = (numpy.concatenate(part) for part in zip(*steps, strict=True))
    steps.clear()
    counts = numpy.bincount(run, minlength=count)
    firsts = (numpy.cumsum(counts) - counts).astype("i4")
    order = numpy.empty(len(run), "i4")
    step += firsts[run]
    order[step] = numpy.arange(len(run), dtype="i4")
    del run, step
    shared, rest, begin, end = shared[order], rest[order], begin[order], end[order]
    size = shared + rest - KEY_TRAILER_BYTES
    before = numpy.concatenate(([0], size[:-1]))
    before[firsts] = 0
    trailer = begin + rest - KEY_TRAILER_BYTES
    if (
        (rest <= KEY_TRAILER_BYTES).any()
        or (shared > before).any()
        or size.max() > KEY_BYTES
        or (data[trailer] != _PUT).any()
    ):
        return None
    value = trailer + KEY_TRAILER_BYTES
    lengths = numpy.stack((size, end - value), axis=1).astype(numpy.uintc)
    return _Places(counts, shared, begin, trailer, value, end, lengths)


def _header(data: Any, words: Any, at: Any) -> tuple[Any, Any, Any, Any]:
    """Return three numbers of one or two bytes, and the positions behind them.

    A longer number is returned as one that is larger than any block.

    Args:
        words: For each position, the four bytes from there on as a number.
    """
    head = words[at]
    if (head & _LONG_KEY).any():
        shared, at = _number(data, at)
        rest, at = _number(data, at)
        length, at = _number(data, at)
        return shared, rest, length, at
    two = (head >> 23) & 1  # the length of the value takes two bytes
    high = ((head >> 24) & 0xFF) * two
    shared, rest = head & 0xFF, (head >> 8) & 0xFF
    length = ((head >> 16) & _LOW) + (high << 7)
    length[high >= _LONG] = BLOCK_BYTES
    return shared, rest, length, at + 3 + two


def _number(data: Any, at: Any) -> tuple[Any, Any]:
    low, high = data[at].astype("i4"), data[at + 1].astype("i4")
    two = low >> 7
    more = numpy.where(high < _LONG, high << 7, BLOCK_BYTES)
    return (low & _LOW) + two * more, at + 1 + two
