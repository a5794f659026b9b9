"""The compression of blocks: the types, the declared size of a block, and decompression."""

import cramjam

from graveler.model import BLOCK_BYTES
from graveler.sstable.format import DamageError, read_varint

NO_COMPRESSION = 0
_SNAPPY = 1
_LZ4 = frozenset((4, 5))
_ZSTD = 7


def decompressed_size(kind: int, stored: bytes) -> int:
    """Return the decompressed size that `stored` declares."""
    if kind == NO_COMPRESSION:
        return len(stored)
    size, _ = read_varint(stored, 0)
    if size > BLOCK_BYTES:
        raise DamageError(f"declares {size} bytes: a block has up to {BLOCK_BYTES}")
    return size


def decompress(kind: int, stored: bytes) -> bytes:
    """Return `stored` decompressed. Arguments and errors are those of `decompress_into`."""
    if kind == NO_COMPRESSION:
        return stored
    block = bytearray(decompressed_size(kind, stored))
    decompress_into(kind, stored, block)
    return bytes(block)


def decompress_into(kind: int, stored: bytes, block: bytearray | memoryview) -> None:
    """Decompress `stored` into memory of the size that it declares."""
    if kind == NO_COMPRESSION:
        block[:] = stored
        return
    try:
        if kind == _SNAPPY:
            length = cramjam.snappy.decompress_raw_into(stored, block)
        elif kind in _LZ4:
            length = cramjam.lz4.decompress_block_into(_behind_size(stored), block)
        elif kind == _ZSTD:
            length = cramjam.zstd.decompress_into(_behind_size(stored), block)
        else:
            raise DamageError(f"compression type {kind} is not supported")
    except cramjam.DecompressionError as error:
        raise DamageError(f"compression type {kind}: {error}") from error
    if length != len(block):
        raise DamageError(f"declares {len(block)} bytes, holds {length}")


def _behind_size(stored: bytes) -> bytes:
    _, begin = read_varint(stored, 0)
    return stored[begin:]
