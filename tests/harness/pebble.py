"""Tables as Pebble writes them for lakeFS, built byte by byte without graveler's code.

RocksDB's block-based format of version 2, or LevelDB's: CRC-32C, Snappy where it saves an eighth,
restarts at every 16th entry, index keys with a trailer, a second level above an index of one block.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import cramjam

Records = Iterable[tuple[bytes, bytes]]

ROCKSDB_MAGIC = bytes.fromhex("f7cff485b741e288")
LEVELDB_MAGIC = bytes.fromhex("57fb808b247547db")
SET = 1
_SEPARATOR = b"\x11" + b"\xff" * 7
_SNAPPY = 1
_ZSTD = 7


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 * (byte & 1))  # noqa: PLW2901 - the register
        table.append(byte)
    return table


_TABLE = _table()


def masked_crc32c(data: bytes) -> int:
    """The checksum after a block: CRC-32C, rotated right by 15 bits, plus a constant."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def uvarint(value: int) -> bytes:
    """A number in groups of 7 bits, lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def block(entries: Records, interval: int) -> bytes:
    """A block of (key, value), with a restart at every `interval`th entry."""
    out, restarts, before = bytearray(), [], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % interval == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(before), len(key)) and before[shared] == key[shared]:
                shared += 1
        out += uvarint(shared) + uvarint(len(key) - shared) + uvarint(len(value))
        out += key[shared:] + value
        before = key
    restarts = restarts or [0]
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def _packed(raw: bytes, compression: str) -> tuple[int, bytes]:
    if compression == "snappy":
        kind, packed = _SNAPPY, bytes(cramjam.snappy.compress_raw(raw))
    elif compression == "zstd":
        kind, packed = _ZSTD, uvarint(len(raw)) + bytes(cramjam.zstd.compress(raw))
    else:
        return 0, raw
    return (kind, packed) if len(packed) < len(raw) - len(raw) // 8 else (0, raw)


def pebble_table(
    records: Records,
    *,
    properties: Mapping[str, str] | None = None,
    footer: Literal["rocksdb", "leveldb"] = "rocksdb",
    compression: str = "snappy",
    block_bytes: int = 4096,
    index_bytes: int = 4096,
    trailer: Callable[[bytes], bytes] = lambda _key: bytes([SET]) + bytes(7),
    stated: Mapping[str, bytes] | None = None,
) -> bytes:
    """The bytes of a table.

    Args:
        records: Key and value, ascending.
        properties: The user's properties.
        footer: The footer of RocksDB's version 2 or of LevelDB.
        compression: Compression of data and index blocks: snappy, zstd or none.
        block_bytes: Target size of a data block, reached at nine tenths.
        index_bytes: Target size of an index block; above it the index has two levels.
        trailer: The bytes after a key in a data block: type and sequence number.
        stated: RocksDB's properties to add or to replace.
    """
    out = bytearray()

    def place(raw: bytes, how: str) -> bytes:
        kind, packed = _packed(raw, how)
        handle = uvarint(len(out)) + uvarint(len(packed))
        checksum = masked_crc32c(packed + bytes([kind]))
        out.extend(packed + bytes([kind]) + checksum.to_bytes(4, "little"))
        return handle

    count, raw_keys, raw_values, last = 0, 0, 0, b""
    index: list[tuple[bytes, bytes]] = []
    waiting: list[tuple[bytes, bytes]] = []
    for key, value in records:
        waiting.append((key + trailer(key), value))
        count, last = count + 1, key
        raw_keys, raw_values = raw_keys + len(key) + 8, raw_values + len(value)
        if len(block(waiting, 16)) >= block_bytes * 9 // 10:
            index.append((last + _SEPARATOR, place(block(waiting, 16), compression)))
            waiting.clear()
    if waiting:
        index.append((last + _SEPARATOR, place(block(waiting, 16), compression)))

    data_bytes = len(out)
    parts: list[list[tuple[bytes, bytes]]] = [[]]
    for entry in index:
        if parts[-1] and len(block([*parts[-1], entry], 1)) > index_bytes:
            parts.append([])
        parts[-1].append(entry)
    if len(parts) > 1:
        top = [(part[-1][0], place(block(part, 1), compression)) for part in parts]
        root = place(block(top, 1), compression)
    else:
        root = place(block(parts[0], 1), compression)

    named = {
        "rocksdb.block.based.table.index.type": struct.pack("<I", 2 if len(parts) > 1 else 0),
        "rocksdb.data.size": uvarint(data_bytes),
        "rocksdb.index.size": uvarint(len(out) - data_bytes),
        "rocksdb.raw.key.size": uvarint(raw_keys),
        "rocksdb.raw.value.size": uvarint(raw_values),
        "rocksdb.comparator": b"leveldb.BytewiseComparator",
        "rocksdb.external_sst_file.global_seqno": bytes(8),
        "rocksdb.external_sst_file.version": struct.pack("<I", 2),
        "rocksdb.index.partitions": uvarint(len(parts)),
        "rocksdb.merge.operator": b"pebble.concatenate",
        "rocksdb.num.data.blocks": uvarint(len(index)),
        "rocksdb.num.entries": uvarint(count),
        "rocksdb.property.collectors": b"[static]",
        "rocksdb.whole.key.filtering": b"0",
    } | dict(stated or {})
    named |= {name: value.encode() for name, value in (properties or {}).items()}
    pairs = sorted((name.encode(), value) for name, value in named.items())
    meta = place(block([(b"rocksdb.properties", place(block(pairs, 1 << 30), "none"))], 1), "none")
    if footer == "leveldb":
        return bytes(out) + (meta + root).ljust(40, b"\0") + LEVELDB_MAGIC
    version = struct.pack("<I", 2)
    return bytes(out) + b"\x01" + (meta + root).ljust(40, b"\0") + version + ROCKSDB_MAGIC
