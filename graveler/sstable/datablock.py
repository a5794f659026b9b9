"""Data blocks: the records themselves. Here is the one loop that everything waits for.

A record's key in its block is the user's key and a trailer of 8 bytes: type (1, a put;
nothing else is taken) and sequence number. Keys ascend strictly, over the whole table.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from graveler.sstable.block import KEY_TRAILER_BYTES, join_key
from graveler.sstable.format import MAX_KEY_BYTES, DamageError, read_varint

__all__ = ["Batch", "batches", "run_of"]

Batch = list[tuple[bytes, bytes]]

_PUT: Final = 1
_STEP: Final = 32 * 1024  # bytes of a block between two looks at how many were decoded
_BATCH: Final = 1024
_MAX_KEY: Final = MAX_KEY_BYTES + KEY_TRAILER_BYTES


def batches(block: bytes, runs: Sequence[int], after: bytes | None) -> Iterator[Batch]:
    """Yield the records of a block in lists of about a thousand.

    Lists, because a generator's step for each record would cost as much as half of the
    decoding; not one list, because a hostile block can hold millions of records.

    Args:
        block: The whole block, decompressed.
        runs: Start of each run to decode, and where the last one ends (see ``bounds``).
        after: Every key is greater than this; None at the start of the table, where the
            empty key may be.

    Raises:
        DamageError: The entries do not fit the block, do not ascend, or are not puts.
    """
    try:
        yield from _batches(block, runs, after)
    except IndexError:
        raise DamageError(f"an entry ends behind its block of {len(block)} bytes") from None


def _batches(  # noqa: C901, PLR0912, PLR0915 - a call in here costs more than what it does
    block: bytes, runs: Sequence[int], after: bytes | None
) -> Iterator[Batch]:
    last = after or b""
    batch: Batch = []
    append = batch.append
    for start, stop in pairwise(runs):
        at = trailer = value = start
        key = tail = b""
        size = 0
        while at < stop:
            pause = min(at + _STEP, stop)
            while at < pause:
                shared = block[at]
                rest = block[at + 1]
                length = block[at + 2]
                # three numbers below 128, or a value length of two bytes: nearly always
                if shared | rest > 127:
                    shared, at = read_varint(block, at)
                    rest, at = read_varint(block, at)
                    length, at = read_varint(block, at)
                    if shared + rest > _MAX_KEY:
                        raise DamageError(f"a key of {shared + rest} bytes: up to {MAX_KEY_BYTES}")
                elif length < 128:
                    at += 3
                elif block[at + 3] < 128:
                    length += (block[at + 3] << 7) - 128
                    at += 4
                else:
                    length, at = read_varint(block, at + 2)

                if shared <= size and rest > KEY_TRAILER_BYTES:
                    value = at + rest
                    trailer = value - 8
                    key = key[:shared] + block[at:trailer]
                    size = shared + trailer - at
                    if key <= last or block[trailer] != _PUT:
                        raise _refusal(key, last, block[trailer])
                else:
                    # shares bytes of the previous trailer, as b"a\x01" does behind b"a"
                    previous = key + (block[trailer:value] or tail)
                    whole, end = join_key(block, at, previous, shared, rest)
                    key, tail = whole[:-KEY_TRAILER_BYTES], whole[-KEY_TRAILER_BYTES:]
                    size = len(key)
                    is_first = after is None and value == 0
                    if (key <= last and not is_first) or tail[0] != _PUT:
                        raise _refusal(key, last, tail[0])
                    trailer = value = end

                last = key
                at = value + length
                append((key, block[value:at]))
            if at > stop:
                raise DamageError(f"an entry ends at byte {at}, past its run's end at {stop}")
            if len(batch) >= _BATCH:
                yield batch
                batch = []
                append = batch.append
    if batch:
        yield batch


def _refusal(key: bytes, last: bytes, kind: int) -> DamageError:
    if kind != _PUT:
        return DamageError(f"the entry at {key!r} is of type {kind}: only puts (1) are read")
    return DamageError(f"key {key!r} after {last!r}: keys ascend")


def run_of(block: bytes, runs: Sequence[int], key: bytes) -> int:
    """Return which run holds `key`, if the block does.

    Raises:
        DamageError: A run does not start with a whole key.
    """
    found = bisect_right(runs, key, hi=len(runs) - 1, key=lambda start: _first_key(block, start))
    return max(found - 1, 0)


def _first_key(block: bytes, start: int) -> bytes:
    shared, at = read_varint(block, start)
    rest, at = read_varint(block, at)
    _, at = read_varint(block, at)
    if shared != 0 or rest < KEY_TRAILER_BYTES:
        raise DamageError(f"the run at byte {start} does not start with a whole key")
    return block[at : at + rest - KEY_TRAILER_BYTES]
