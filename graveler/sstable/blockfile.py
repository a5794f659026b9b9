"""The blocks of a table: found by handle, verified, decompressed."""

from collections.abc import Callable
from functools import cached_property
from mmap import mmap
from typing import Final

import cramjam

from graveler.limits import BLOCK_BYTES
from graveler.sstable.block import entries
from graveler.sstable.checksum import CHECKSUMS
from graveler.sstable.format import (
    FOOTER_BYTES,
    TRAILER_BYTES,
    DamageError,
    Footer,
    Handle,
    decode_footer,
    located,
    read_handle,
    read_varint,
)
from graveler.sstable.properties import ROCKSDB_PROPERTIES

NO_COMPRESSION: Final = 0
_SNAPPY: Final = 1
_LZ4: Final = frozenset((4, 5))
_ZSTD: Final = 7


def decompress(kind: int, stored: bytes) -> bytes:
    """Return the block behind `stored`.

    Args:
        kind: Compression type, from the block's trailer.
        stored: The block as stored in the file.

    Raises:
        DamageError: The type is not known, the bytes do not decompress to the size that
            they declare, or that size is over ``BLOCK_BYTES``.
    """
    if kind == NO_COMPRESSION:
        return stored
    size, at = read_varint(stored, 0)
    if size > BLOCK_BYTES:
        raise DamageError(f"declares {size} bytes: a block has up to {BLOCK_BYTES}")
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


Data = bytes | bytearray | memoryview | mmap
"""The whole file, in memory or mapped."""
_INDEX: Final = b"rocksdb.index"
_MASK_32: Final = 0xFFFFFFFF


class BlockFile:
    """A table as a set of blocks. Raises DamageError only.

    Attributes:
        footer: The end of the file, decoded.
        metaindex: Name to handle of the blocks that are not data.
    """

    def __init__(self, data: Data) -> None:
        start = len(data) - FOOTER_BYTES
        if start < 0:
            raise DamageError(f"{len(data)} bytes are too few for a footer of {FOOTER_BYTES}")
        self._data = data
        self.footer: Footer = decode_footer(bytes(data[start:]), start)
        self._checksum = CHECKSUMS[self.footer.kind]
        metaindex = self.footer.metaindex
        if metaindex.offset + metaindex.size + TRAILER_BYTES != start:
            raise DamageError(f"the metaindex at {metaindex.offset} is not before the footer")
        with located(f"metaindex at {metaindex.offset}"):
            self.metaindex: dict[bytes, Handle] = {
                name: read_handle(value, 0)[0] for name, value in entries(self.read(metaindex))
            }

    @cached_property
    def index(self) -> Handle:
        """Where the index is."""
        handle = self.footer.index or self.metaindex.get(_INDEX)
        if handle is None:
            raise DamageError("the metaindex names no index")
        return handle

    @property
    def properties_handle(self) -> Handle:
        """Where the properties are."""
        handle = self.metaindex.get(ROCKSDB_PROPERTIES)
        if handle is None:
            raise DamageError("the metaindex names no properties")
        return handle

    def properties(self) -> dict[str, bytes]:
        """Return the properties; names are ASCII, what is not comes out as Latin-1."""
        handle = self.properties_handle
        with located(f"properties at {handle.offset}"):
            pairs = entries(self.read(handle))
            return {name.decode("latin-1"): value for name, value in pairs}

    def read(self, handle: Handle) -> bytes:
        """Return the block at `handle`, its checksum verified, decompressed."""
        return decompress(*self.stored(handle))

    def stored(self, handle: Handle) -> tuple[int, bytes]:
        """Return the block's compression, and its bytes as they lie in the file, verified."""
        offset, size = handle
        end = offset + size
        if offset < 0 or size < 0 or end + TRAILER_BYTES > self.footer.start:
            raise DamageError(f"{size} bytes at {offset}: the blocks end at {self.footer.start}")
        stored = bytes(self._data[offset:end])
        compression = self._data[end]
        expected = int.from_bytes(self._data[end + 1 : end + TRAILER_BYTES], "little")
        found = (self._checksum(stored, compression) + self.footer.context(offset)) & _MASK_32
        if found != expected:
            raise DamageError(f"checksum {found:08x}, stored {expected:08x}")
        return compression, stored
