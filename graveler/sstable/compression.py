"""Decompression of blocks, never beyond the size that they declare and that is allowed.

======  ===========  ==================================================
 type   algorithm    stored
======  ===========  ==================================================
 0      none         the block
 1      snappy       raw snappy, which starts with its varint size
 4, 5   lz4, lz4hc   varint size, then one LZ4 block
 7      zstd         varint size, then Zstandard frames
======  ===========  ==================================================
"""

from collections.abc import Callable
from typing import Final

import cramjam

from graveler.sstable.format import MAX_BLOCK_BYTES, DamageError, read_varint

__all__ = ["NO_COMPRESSION", "decompress"]

NO_COMPRESSION: Final = 0
_SNAPPY: Final = 1
_LZ4: Final = frozenset((4, 5))
_ZSTD: Final = 7


def decompress(kind: int, stored: bytes) -> bytes:
    """Return the block behind `stored`.

    Args:
        kind: Compression type, from the block's trailer.
        stored: The block as it lies in the file.

    Raises:
        DamageError: The type is not known, the bytes do not decompress to the size that
            they declare, or that size is over ``MAX_BLOCK_BYTES``.
    """
    if kind == NO_COMPRESSION:
        return stored
    size, at = read_varint(stored, 0)
    if size > MAX_BLOCK_BYTES:
        raise DamageError(f"declares {size} bytes: a block has up to {MAX_BLOCK_BYTES}")
    try:
        if kind == _SNAPPY:
            return bytes(cramjam.snappy.decompress_raw(stored))
        if kind in _LZ4:
            return _exactly(size, lambda out: cramjam.lz4.decompress_block_into(stored[at:], out))
        if kind == _ZSTD:
            return _exactly(size, lambda out: cramjam.zstd.decompress_into(stored[at:], out))
    except cramjam.DecompressionError as error:
        raise DamageError(f"compression type {kind}: {error}") from error
    raise DamageError(f"compression type {kind} is not supported")


def _exactly(size: int, fill: Callable[[bytearray], int]) -> bytes:
    out = bytearray(size)
    found = fill(out)
    if found != size:
        raise DamageError(f"declares {size} bytes, holds {found}")
    return bytes(out)
