"""The smallest parts of a table: checksums, varints, block handles, the footer.

A checksum covers the stored block and the compression type behind it, and the footer states its
kind. Footers of versions 2 to 6 and of LevelDB are in ``docs/formats/table.md``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from cramjam import snappy
from xxhash import xxh3_64_intdigest, xxh32, xxh64

_MASK_32 = 0xFFFFFFFF


XXH3 = 4
_LAST_BYTE_FACTOR = 0x6B9083D9
_CRC32C_POLYNOMIAL = 0x82F63B78
_CRC32C_MASK = 0xA282EAD8
_FRAME_BYTES = 64 * 1024
"""Largest chunk of Snappy's framing format. Larger blocks are rare."""
_FRAMED_CHECKSUM = slice(14, 18)
"""Behind the identifier of the stream (10 bytes), and the type and length of the first chunk."""


def xxh3(stored: bytes, compression: int) -> int:
    """Return the low half of XXH3 of `stored`, XORed with a multiple of the compression type."""
    return xxh3_64_intdigest(stored) & _MASK_32 ^ (compression * _LAST_BYTE_FACTOR & _MASK_32)


def _xxh32(stored: bytes, compression: int) -> int:
    digest = xxh32(stored)
    digest.update(bytes((compression,)))
    return digest.intdigest()


def _xxh64(stored: bytes, compression: int) -> int:
    digest = xxh64(stored)
    digest.update(bytes((compression,)))
    return digest.intdigest() & _MASK_32


@cache
def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _crc32c(stored: bytes, compression: int) -> int:
    data = stored + bytes((compression,))
    if len(data) <= _FRAME_BYTES:
        # Snappy's framing format has this checksum, masked in the same way, before each chunk.
        # The library computes it 70 times as fast as a loop in Python.
        return int.from_bytes(bytes(snappy.compress(data))[_FRAMED_CHECKSUM], "little")
    return _crc32c_by_table(data)


def _crc32c_by_table(data: bytes) -> int:
    table = _crc32c_table()
    value = _MASK_32
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= _MASK_32
    return ((value >> 15 | value << 17) + _CRC32C_MASK) & _MASK_32


CHECKSUMS: Mapping[int, Callable[[bytes, int], int]] = MappingProxyType(
    {1: _crc32c, 2: _xxh32, 3: _xxh64, XXH3: xxh3}
)
"""Kind to function of (stored block, compression type). Kind 0, no checksum, is refused."""


FOOTER_BYTES = 53
_LEVELDB_FOOTER_BYTES = 48
LEVELDB = 0
"""The format version of a table with LevelDB's footer."""
_CRC32C = 1
TRAILER_BYTES = 5
"""Behind every block: compression type (1 byte), checksum (4 bytes)."""

_MAGIC = bytes.fromhex("f7cff485b741e288")
_LEVELDB_MAGIC = bytes.fromhex("57fb808b247547db")
_EXTENDED = bytes.fromhex("3e007a00")
_CONTEXT_VERSION = 6
_VERSIONS = range(2, 7)
_MAX_VARINT_BYTES = 10
_MORE = 0x80
_LOW = 0x7F


class DamageError(Exception):
    """The bytes do not follow the format. The reader adds the table's name and the place."""


@contextmanager
def located(place: str) -> Iterator[None]:
    """Add `place` to the message of a DamageError that the block raises."""
    try:
        yield
    except DamageError as error:
        raise DamageError(f"{place}: {error}") from error


class Handle(NamedTuple):
    """Position of a block: offset in the file, and size without its trailer."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer at the end of a file.

    Attributes:
        kind: Checksum kind, one of ``CHECKSUMS``.
        version: Format version, 2 to 6; 0 for a table of LevelDB.
        index: The index block; None in version 6, where the metaindex names it.
        base: Added to each checksum, mixed with the block's offset. 0 below version 6.
        start: Offset of the footer. All blocks end before it.
    """

    kind: int
    version: int
    metaindex: Handle
    index: Handle | None
    base: int
    start: int

    def context(self, offset: int) -> int:
        """Return the number that is added to the checksum of the bytes at `offset`."""
        if not self.base:
            return 0
        return self.base ^ ((offset + (offset >> 32)) & _MASK_32)


def varints(*values: int) -> bytes:
    """Return each value in groups of 7 bits, lowest first, the top bit set on all but the last."""
    out = bytearray()
    for value in values:
        left = value
        while left >= _MORE:
            out.append(left & _LOW | _MORE)
            left >>= 7
        out.append(left)
    return bytes(out)


def read_varints(raw: bytes, at: int) -> tuple[int, int, int, int]:
    """Return the next three values, and the position behind them, or raise DamageError."""
    if at + 2 < len(raw) and raw[at] | raw[at + 1] | raw[at + 2] < _MORE:  # nearly always
        return raw[at], raw[at + 1], raw[at + 2], at + 3
    first, at = read_varint(raw, at)
    second, at = read_varint(raw, at)
    return first, second, *read_varint(raw, at)


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return (value, position behind it), or raise DamageError."""
    value = shift = 0
    for position in range(at, min(at + _MAX_VARINT_BYTES, len(raw))):
        byte = raw[position]
        value |= (byte & _LOW) << shift
        if byte < _MORE:
            return value, position + 1
        shift += 7
    raise DamageError(f"no number at byte {at} of {len(raw)}")


def read_handle(raw: bytes, at: int) -> tuple[Handle, int]:
    """Return (handle, position behind it), or raise DamageError."""
    offset, at = read_varint(raw, at)
    size, at = read_varint(raw, at)
    return Handle(offset, size), at


def encode_footer(footer: Footer) -> bytes:
    """Return the 53 bytes of a footer below version 6."""
    if footer.index is None:
        raise ValueError("a footer of version 6 cannot be written, only read")
    handles = varints(*footer.metaindex, *footer.index)
    return b"".join(
        (
            bytes((footer.kind,)),
            handles.ljust(40, b"\0"),
            footer.version.to_bytes(4, "little"),
            _MAGIC,
        )
    )


def decode_footer(raw: bytes, start: int) -> Footer:
    """Return the footer in the last 53 bytes of a file, which start at `start`."""
    magic = raw[-8:]
    if magic == _LEVELDB_MAGIC:
        own = raw[-_LEVELDB_FOOTER_BYTES:]
        metaindex, at = read_handle(own[:40], 0)
        index, _ = read_handle(own[:40], at)
        return Footer(_CRC32C, LEVELDB, metaindex, index, 0, start + len(raw) - len(own))
    if len(raw) != FOOTER_BYTES or magic != _MAGIC:
        raise DamageError(f"not a RocksDB table: it ends with {magic.hex() or 'nothing'}")
    kind = raw[0]
    if kind not in CHECKSUMS:
        raise DamageError(f"checksum kind {kind} is not supported: use one of {sorted(CHECKSUMS)}")
    version = int.from_bytes(raw[41:45], "little")
    if version not in _VERSIONS:
        raise DamageError(f"format version {version} is not supported: use 2 to 6")
    if version >= _CONTEXT_VERSION:
        return _decode_context_footer(raw, start)
    metaindex, at = read_handle(raw[:41], 1)
    index, _ = read_handle(raw[:41], at)
    return Footer(kind, version, metaindex, index, 0, start)


def _decode_context_footer(raw: bytes, start: int) -> Footer:
    if raw[1:5] != _EXTENDED:
        raise DamageError(f"footer of version 6 has {raw[1:5].hex()} instead of 3e007a00")
    stored = int.from_bytes(raw[5:9], "little")
    base = int.from_bytes(raw[9:13], "little")
    size = int.from_bytes(raw[13:17], "little")
    metaindex = Handle(start - TRAILER_BYTES - size, size)
    footer = Footer(raw[0], _CONTEXT_VERSION, metaindex, None, base, start)
    zeroed = raw[:5] + bytes(4) + raw[9:]
    # each function takes the last byte apart, and returns the checksum of all bytes together
    computed = (CHECKSUMS[raw[0]](zeroed[:-1], zeroed[-1]) + footer.context(start)) & _MASK_32
    if computed != stored:
        raise DamageError(f"footer: checksum {computed:08x}, stored {stored:08x}")
    return footer
