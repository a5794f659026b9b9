"""Blocks: sorted entries whose keys leave out the prefix that they share with the previous key.

About every sixteenth entry is a restart, which has its whole key. ``docs/formats/table.md`` has the
bytes.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import lt
from typing import NamedTuple, Self

from graveler.model import BLOCK_BYTES, KEY_BYTES
from graveler.sstable.format import DamageError, read_varint, read_varints, varints

KEY_TRAILER_BYTES = 8
"""Behind each key of a record: type (1 byte), sequence number (7 bytes)."""
PAIR_BYTES = 100  # about the memory that Python needs for one more pair
_NEARLY_SPENT = BLOCK_BYTES - PAIR_BYTES - 2 * 127


def encode_block(pairs: Iterable[tuple[bytes, bytes]], interval: int) -> bytes:
    """Return the block of ascending `pairs`, with a restart at every `interval`-th pair."""
    out = bytearray()
    restarts = []
    previous = b""
    for position, (key, value) in enumerate(pairs):
        shared = 0
        if position % interval == 0:
            restarts.append(len(out))
        else:
            for one, other in zip(previous, key):  # noqa: B905 - to the end of the shorter
                if one != other:
                    break
                shared += 1
        rest, length = len(key) - shared, len(value)
        small = shared | rest | length < 128
        out += bytes((shared, rest, length)) if small else varints(shared, rest, length)
        out += key[shared:] + value
        previous = key
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def bounds(block: bytes) -> tuple[int, ...]:
    """Return the start of each run of entries, and the end of the last run."""
    count = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * count
    if count < 1 or end < 0:
        raise DamageError(f"{count} restarts in a block of {len(block)} bytes")
    if end == 0 and count == 1:
        return (0,)
    starts = (*struct.unpack_from(f"<{count}I", block, end), end)
    if starts[0] != 0 or not all(map(lt, starts, starts[1:])):
        raise DamageError(f"restarts do not ascend from 0 to {end}")
    return starts


def entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a metaindex, of properties or of a plain index."""
    spent = 0
    for start, stop in pairwise(bounds(block)):
        key = b""
        at = start
        while at < stop:
            shared, rest, length = block[at : at + 3]
            if shared | rest | length > 127 or shared > len(key) or spent > _NEARLY_SPENT:
                shared, rest, length, at = read_varints(block, at)
                key, at, spent = join_key(block, at, key, shared, rest, spent)
            else:  # nearly always, and without a call
                at += 3
                key = key[:shared] + block[at : at + rest]
                at += rest
                spent += shared + rest + PAIR_BYTES
            yield key, block[at : at + length]
            at += length
        if at != stop:
            raise DamageError(f"an entry ends at byte {at}, past its restart at {stop}")


def join_key(
    block: bytes, at: int, previous: bytes, shared: int, rest: int, spent: int
) -> tuple[bytes, int, int]:
    """Return the key that shares `shared` bytes with `previous`, and the position behind it.

    The last number is `spent` plus the memory of the key: a small block can expand to many long keys.
    """
    if shared > len(previous):
        raise DamageError(f"the key at byte {at} shares {shared} of {len(previous)} bytes")
    if shared + rest > KEY_BYTES + KEY_TRAILER_BYTES:
        raise DamageError(f"the key at byte {at} has {shared + rest} bytes: up to {KEY_BYTES}")
    spent += shared + rest + PAIR_BYTES
    if spent > BLOCK_BYTES:
        raise DamageError(f"the keys take more than {BLOCK_BYTES} bytes")
    return previous[:shared] + block[at : at + rest], at + rest, spent


Batch = list[tuple[bytes, bytes]]


class Columns(NamedTuple):
    """Consecutive records, column by column.

    Attributes:
        lengths: The length of each key, followed by that of its value, as bytes of `array("I")`.
    """

    keys: list[bytes]
    values: list[bytes]
    lengths: bytes

    @classmethod
    def of(cls, batch: Batch) -> Self:
        """Return records as columns."""
        lengths = array("I", map(len, chain.from_iterable(batch)))
        return cls([key for key, _ in batch], [value for _, value in batch], lengths.tobytes())


_PUT = 1
_STEP = 32 * 1024  # bytes of a block between two checks of the size of the batch
_BATCH = 1024
_MAX_KEY = KEY_BYTES + KEY_TRAILER_BYTES


def batches(block: bytes, after: bytes | None) -> Iterator[Batch]:
    """Yield the records of a block in lists of about a thousand.

    Yielding record by record would cost half as much as the decoding. A single list would be
    unbounded, because a hostile block can hold millions of records.

    Args:
        after: Every key is greater than this. None at the start of the table, where the
            empty key is allowed.
    """
    try:
        yield from _batches(block, bounds(block), after)
    except IndexError:
        raise DamageError(f"an entry ends behind its block of {len(block)} bytes") from None


def _batches(  # noqa: C901, PLR0912, PLR0915 - calls would cost more than their work
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
                # nearly always: three numbers below 128, or a value length of two bytes
                if shared | rest > 127:
                    shared, rest, length, at = read_varints(block, at)
                    if shared + rest > _MAX_KEY:
                        raise DamageError(f"a key of {shared + rest} bytes: up to {KEY_BYTES}")
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
                    # the key shares bytes of the previous trailer, as b"a\x01" does after b"a"
                    previous = key + (block[trailer:value] or tail)
                    whole, end, _ = join_key(block, at, previous, shared, rest, 0)
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
