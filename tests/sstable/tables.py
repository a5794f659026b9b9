"""Tables for tests: graveler's, RocksDB's with other options, and forged ones."""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import rocksdict
from hypothesis import strategies as st

from graveler.sstable import writer
from graveler.sstable.block import encode_block
from graveler.sstable.format import Footer, Handle, encode_footer, varints, xxh3
from graveler.sstable.writer import TableWriter

COMPRESSIONS = ("none", "snappy", "lz4", "zstd")
Records = list[tuple[bytes, bytes]]

PUT = b"\x01" + bytes(7)
IDENTITY = bytes(range(32))

# a key's trailer consists of \x00 and \x01; two letters and \xff share long prefixes
KEYS = st.lists(st.sampled_from([0, 1, 97, 98, 255]), max_size=9).map(bytes)
VALUES = st.one_of(
    st.binary(max_size=8),
    st.integers(100, 20_000).map(lambda size: bytes(size % 251 for _ in range(size))),
)
TABLES = st.dictionaries(KEYS, VALUES, min_size=1, max_size=40)


def some_records(count: int, *, value_bytes: int = 20) -> Records:
    """Return paths like those of a lake, and values that compress only in part."""
    return [
        (
            f"input/2013/01/{i // 24 + 1:03d}/{i % 24:02d}:00/part-{i:05d}.parquet".encode(),
            (f"{i * 2654435761 % 2**32:08x}" * (value_bytes // 8 + 1)).encode()[:value_bytes],
        )
        for i in range(count)
    ]


def written(
    records: Iterable[tuple[bytes, bytes]],
    *,
    compression: str = "snappy",
    identity: bytes = IDENTITY,
    properties: dict[str, str] | None = None,
) -> bytes:
    """Return the bytes of a table that graveler writes."""
    folder = Path(tempfile.mkdtemp())
    try:
        with (
            patch.object(writer, "_COMPRESSION", compression),
            TableWriter(folder / "t.sst") as table,
        ):
            for key, value in records:
                table.records[key] = value
            table.finish(identity, properties or {})
        return (folder / "t.sst").read_bytes()
    finally:
        shutil.rmtree(folder)


def rocksdb_written(  # one parameter for each option that changes the bytes
    path: Path,
    records: Records,
    *,
    version: int = 5,
    compression: str = "snappy",
    block_bytes: int = 4096,
    restart: int = 16,
    index_restart: int = 1,
    checksum: str = "xxh3",
    two_levels: bool = False,
    hash_index: bool = False,
) -> bytes:
    """Return the bytes of a table that RocksDB writes itself."""
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_format_version(version)
    blocks.set_block_size(block_bytes)
    blocks.set_block_restart_interval(restart)
    blocks.set_index_block_restart_interval(index_restart)
    blocks.set_checksum_type(getattr(rocksdict.ChecksumType, checksum)())
    if two_levels:
        blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        blocks.set_metadata_block_size(256)
    if hash_index:
        blocks.set_data_block_index_type(rocksdict.DataBlockIndexType.binary_and_hash())
    options = rocksdict.Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(getattr(rocksdict.DBCompressionType, compression)())
    writer = rocksdict.SstFileWriter(options)
    writer.open(str(path))
    for key, value in records:
        writer[key] = value
    writer.finish()
    return path.read_bytes()


def rocksdb_read(table: Path, folder: Path, *, cache: Any = None) -> rocksdict.Rdict:
    """Return a database in `folder` that has ingested a hard link of the table; close it."""
    options = rocksdict.Options(raw_mode=True)
    if cache is not None:
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_cache(cache)
        options.set_block_based_table_factory(blocks)
    database = rocksdict.Rdict(str(folder / "db"), options)
    link = folder / "link.sst"
    link.hardlink_to(table)
    database.ingest_external_file([str(link)])
    return database


def sealed(block: bytes, compression: int = 0) -> bytes:
    """Return the block with a trailer whose checksum is correct, for any block."""
    return block + bytes((compression,)) + xxh3(block, compression).to_bytes(4, "little")


def resealed(data: bytes, handle: Handle) -> bytes:
    """Return the table with a corrected checksum of one block."""
    end = handle.offset + handle.size
    return data[: handle.offset] + sealed(data[handle.offset : end], data[end]) + data[end + 5 :]


def records_block(records: Iterable[tuple[bytes, bytes]], interval: int = 16) -> bytes:
    """Return a data block of puts."""
    return encode_block([(key + PUT, value) for key, value in records], interval)


def forged(
    data_blocks: Sequence[tuple[bytes, int]],
    separators: Sequence[bytes],
    *,
    count: int = 1,
    properties: dict[bytes, bytes] | None = None,
    handles: Sequence[bytes] | None = None,
    index: bytes | None = None,
    metaindex: dict[bytes, bytes] | None = None,
    without: bytes = b"",
) -> bytes:
    """Return a table built from given parts, with correct checksums.

    Args:
        data_blocks: (stored bytes, compression type) of each data block.
        separators: The index keys of the data blocks.
        count: The number of records in the properties.
        properties: Properties to add or replace.
        handles: Index values instead of the true ones.
        index: The index block instead of the true one.
        metaindex: Records to add to the metaindex.
        without: A property to leave out.
    """
    out = bytearray()
    found = []
    for stored, compression in data_blocks:
        found.append(varints(len(out)) + varints(len(stored)))
        out += sealed(stored, compression)

    def place(block: bytes) -> Handle:
        handle = Handle(len(out), len(block))
        out.extend(sealed(block))
        return handle

    if index is None:
        index = encode_block(zip(separators, handles or found, strict=True), 1)
    index_handle = place(index)
    named = {
        b"rocksdb.num.entries": varints(count),
        b"rocksdb.index.key.is.user.key": b"\x01",
        b"rocksdb.comparator": b"leveldb.BytewiseComparator",
    } | (properties or {})
    named.pop(without, None)
    properties_handle = place(encode_block(sorted(named.items()), 16))
    entries = {b"rocksdb.properties": b"".join(map(varints, properties_handle))}
    metaindex_handle = place(encode_block(sorted((entries | (metaindex or {})).items()), 1))
    return bytes(out) + encode_footer(Footer(4, 5, metaindex_handle, index_handle, 0, len(out)))
