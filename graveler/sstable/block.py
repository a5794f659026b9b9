"""Blocks: sorted entries with the prefix they share with the one before left out.

An entry::

    varint  bytes shared with the previous key
    varint  bytes that follow
    varint  length of the value         (not in an index with delta-encoded values)
    bytes   the rest of the key
    bytes   value

Every sixteenth entry or so is a restart: it shares nothing, so that reading can start
there. The block ends with the offsets of the restarts and their number, 4 bytes each.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import lt
from typing import Final

from graveler.sstable.format import (
    MAX_BLOCK_BYTES,
    MAX_KEY_BYTES,
    DamageError,
    read_varint,
    varint,
)

__all__ = ["KEY_TRAILER_BYTES", "bounds", "encode_block", "entries", "join_key", "spend"]

KEY_TRAILER_BYTES: Final = 8
"""Behind each key of a record: type (1 byte), sequence number (7 bytes)."""
_PAIR_BYTES: Final = 100  # what Python takes for one more pair, about


def encode_block(pairs: Iterable[tuple[bytes, bytes]], interval: int) -> bytes:
    """Return the block of `pairs`, which ascend, with a restart at every `interval`th."""
    out = bytearray()
    restarts = []
    previous = b""
    for position, (key, value) in enumerate(pairs):
        shared = 0
        if position % interval == 0:
            restarts.append(len(out))
        else:
            limit = min(len(previous), len(key))
            while shared < limit and previous[shared] == key[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value))
        out += key[shared:] + value
        previous = key
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def bounds(block: bytes) -> tuple[int, ...]:
    """Return where each run of entries starts, and where the last one ends.

    Raises:
        DamageError: The restarts do not fit the block, or do not ascend from 0.
    """
    count = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * count
    if count < 1 or end < 0:
        raise DamageError(f"{count} restarts in a block of {len(block)} bytes")
    if end == 0 and count == 1:
        return (0,)
    found = (*struct.unpack_from(f"<{count}I", block, end), end)
    if found[0] != 0 or not all(map(lt, found, found[1:])):
        raise DamageError(f"restarts do not ascend from 0 to {end}")
    return found


def entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a metaindex, of properties or of a plain index.

    Raises:
        DamageError: The entries do not fit the block.
    """
    spent = 0
    for start, stop in pairwise(bounds(block)):
        key = b""
        at = start
        while at < stop:
            shared, at = read_varint(block, at)
            rest, at = read_varint(block, at)
            length, at = read_varint(block, at)
            key, at = join_key(block, at, key, shared, rest)
            spent = spend(spent, key)
            yield key, block[at : at + length]
            at += length
        if at != stop:
            raise DamageError(f"an entry ends at byte {at}, past its restart at {stop}")


def join_key(block: bytes, at: int, previous: bytes, shared: int, rest: int) -> tuple[bytes, int]:
    """Return the key that shares `shared` bytes with `previous`, and the position behind it.

    Raises:
        DamageError: It shares more than there is, or is too long.
    """
    if shared > len(previous):
        raise DamageError(f"the key at byte {at} shares {shared} of {len(previous)} bytes")
    if shared + rest > MAX_KEY_BYTES + KEY_TRAILER_BYTES:
        raise DamageError(f"the key at byte {at} has {shared + rest} bytes: up to {MAX_KEY_BYTES}")
    return previous[:shared] + block[at : at + rest], at + rest


def spend(spent: int, key: bytes) -> int:
    """Return `spent` and the memory `key` takes; a small block can expand to many long keys.

    Raises:
        DamageError: That is more than a block may hold.
    """
    spent += len(key) + _PAIR_BYTES
    if spent > MAX_BLOCK_BYTES:
        raise DamageError(f"the keys take more than {MAX_BLOCK_BYTES} bytes")
    return spent
