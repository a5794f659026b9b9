"""Checksums of blocks, by the kind that the footer names.

Each is 32 bits over the stored block and the compression type behind it.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from xxhash import xxh3_64_intdigest, xxh32, xxh64

XXH3: Final = 4
_MASK_32: Final = 0xFFFFFFFF
_LAST_BYTE_FACTOR: Final = 0x6B9083D9
_CRC32C_POLYNOMIAL: Final = 0x82F63B78
_CRC32C_MASK: Final = 0xA282EAD8


def xxh3(stored: bytes, compression: int) -> int:
    """Return XXH3's low half over `stored`, with the last byte folded in by a product."""
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
    # Byte by byte in Python, 15 MB/s at best: our tables have XXH3, this is for reading others
    table = _crc32c_table()
    value = _MASK_32
    for byte in stored:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    value = table[(value ^ compression) & 0xFF] ^ value >> 8
    value ^= _MASK_32
    return ((value >> 15 | value << 17) + _CRC32C_MASK) & _MASK_32


CHECKSUMS: Final[Mapping[int, Callable[[bytes, int], int]]] = MappingProxyType(
    {1: _crc32c, 2: _xxh32, 3: _xxh64, XXH3: xxh3}
)
"""Kind to function of (stored block, compression type). Kind 0, none, is not read."""
