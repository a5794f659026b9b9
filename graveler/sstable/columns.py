"""Many blocks at once: their records column by column, in a small part of the time.

The first entries of all runs are decoded together, then the second ones, and so on: a run starts with a
whole key, and our tables have sixteen entries in each. What is not in the form of nearly every table,
and everything that is wrong, is left to `graveler.sstable.block`, which reads any form and says what it
refuses.

numpy takes longer to load than a few tables take to read, so this module is imported when that pays.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate, chain, islice
from operator import lt
from typing import Any, Final, NamedTuple

import numpy

from graveler.sstable.block import KEY_TRAILER_BYTES, MAX_KEY, bounds

_ROWS: Final = 1_024
_LONGEST_RUN: Final = 64
_LONG: Final = 0x80
_PUT: Final = 1
_PADDING: Final = bytes(8)


class _Places(NamedTuple):
    """Where the entries are.

    Attributes:
        counts: How many entries each run has.
        shared: Of each entry: how many bytes its key has in common with the one before.
        rest: Where the rest of its key begins.
        trailer: Where that ends.
        end: Where its value ends.
    """

    counts: Any
    shared: Any
    rest: Any
    trailer: Any
    end: Any


class Blocks:
    """Blocks that follow each other in a table.

    Attributes:
        size: Bytes of them.
    """

    def __init__(self) -> None:
        self.size = 0
        self._data = BytesIO()
        self._runs: list[tuple[int, ...]] = []
        self._bases: list[int] = []

    def add(self, block: bytes) -> None:
        """Add a block, decompressed.

        Raises:
            DamageError: Its restarts are damaged.
        """
        self._runs.append(bounds(block))
        self._bases.append(self.size)
        self._data.write(block)
        self.size += len(block)

    def columns(
        self, separators: Sequence[bytes], after: bytes
    ) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
        """Yield keys and values, with the number of blocks that are complete then.

        It ends before what it does not read.

        Args:
            separators: Of each block: its keys are at or before it.
            after: Every key is greater than this.
        """
        firsts = [
            0,
            *accumulate(len(each) - 1 for each in self._runs),
        ]  # the first run of each block
        if not all(map(lt, firsts, firsts[1:])):
            return  # a block has no entries
        base = numpy.repeat(self._bases, numpy.diff(firsts))
        self._data.write(_PADDING)
        data = self._data.getvalue()
        places = _places(
            numpy.frombuffer(data, "u1"),
            base + numpy.fromiter(chain.from_iterable(each[:-1] for each in self._runs), "i8"),
            base + numpy.fromiter(chain.from_iterable(each[1:] for each in self._runs), "i8"),
        )
        if places is None:
            return
        rows = [0, *places.counts.cumsum()[numpy.subtract(firsts[1:], 1)].tolist()]
        bottoms = [after, *separators]
        key = after
        # some rows at a time, so that the memory of their keys and values is used again and again
        for first in range(0, rows[-1], _ROWS):
            stop = min(first + _ROWS, rows[-1])
            last, (keys, values) = key, _rows(data, places, slice(first, stop), key)
            key = keys[-1]
            begin = range(bisect_left(rows, first), bisect_left(rows, stop))
            end = range(bisect_right(rows, first), bisect_right(rows, stop))
            if (
                keys[0] <= last
                or not all(map(lt, keys, islice(keys, 1, None)))
                or any(keys[rows[block] - first] <= bottoms[block] for block in begin)
                or any(keys[rows[block] - 1 - first] > bottoms[block] for block in end)
            ):
                return
            yield end.stop - 1, keys, values


def _rows(data: bytes, places: _Places, some: slice, key: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return keys and values of some entries behind a key."""
    shared, rest, trailer, end = (part[some].tolist() for part in places[1:])
    return (
        [
            key := key[:common] + data[begin:stop]
            for common, begin, stop in zip(shared, rest, trailer, strict=True)
        ],
        [data[begin + KEY_TRAILER_BYTES : stop] for begin, stop in zip(trailer, end, strict=True)],
    )


def _places(data: Any, at: Any, stops: Any) -> _Places | None:
    """Return where the entries of runs are, None where one has an uncommon form.

    Args:
        data: Bytes of the blocks, and some behind them.
        at: Where each run begins.
        stops: Where it ends.
    """
    count = len(at)
    runs = numpy.arange(count)  # those that go on
    size = numpy.zeros(count, "i8")  # of the key before
    steps: list[tuple[Any, ...]] = []
    while len(runs):
        if len(steps) == _LONGEST_RUN:
            return None
        shared, begin, odd_shared = _numbers(data, at)
        rest, begin, odd_rest = _numbers(data, begin)
        length, begin, odd_length = _numbers(data, begin)
        trailer = begin + rest - KEY_TRAILER_BYTES
        at = begin + rest + length
        if (
            odd_shared
            or odd_rest
            or odd_length
            or (shared > size).any()
            or (rest <= KEY_TRAILER_BYTES).any()
            or (shared + rest > MAX_KEY).any()
            or (at > stops).any()
            or (data[trailer] != _PUT).any()
        ):
            return None
        steps.append((runs, shared, begin, trailer, at))
        size = shared + rest - KEY_TRAILER_BYTES
        going = at < stops
        runs, at, stops, size = runs[going], at[going], stops[going], size[going]
    found = [numpy.concatenate(parts) for parts in zip(*steps, strict=True)]
    counts = numpy.bincount(found[0], minlength=count)
    step = numpy.repeat(numpy.arange(len(steps)), [len(each[0]) for each in steps])
    order = numpy.empty(len(step), "i8")
    order[(numpy.cumsum(counts) - counts)[found[0]] + step] = numpy.arange(len(step))
    return _Places(counts, *(part[order] for part in found[1:]))


def _numbers(data: Any, at: Any) -> tuple[Any, Any, bool]:
    """Return numbers of one or two bytes, the places behind them, and whether one is longer."""
    low = data[at]
    two = low >= _LONG
    if not two.any():
        return low.astype("i8"), at + 1, False
    high = data[at + 1].astype("i8") * two
    return low + (high << 7) - two * _LONG, at + 1 + two, bool((high >= _LONG).any())
