"""Making a table's bytes a function of its records.

RocksDB stamps each table with a random session id, the host's name and a running
number, all in the properties. They are the same for equal tables after this, and the
user's properties are added: only the last kilobyte of the file is rewritten.

The session id must differ between tables: RocksDB names the blocks in a shared cache by
session id, file number and offset, so two tables with one session id would serve each
other's records. It is taken from the identity and from the index, in which every block
boundary is.
"""

import os
from collections.abc import Mapping
from hashlib import sha256
from mmap import ACCESS_READ, MADV_RANDOM, mmap
from pathlib import Path
from typing import Final

from graveler.errors import InternalError
from graveler.privacy import PRIVATE_FILE
from graveler.sstable.block import encode_block
from graveler.sstable.blockfile import NO_COMPRESSION, BlockFile
from graveler.sstable.checksum import XXH3, xxh3
from graveler.sstable.format import TRAILER_BYTES, Footer, Handle, encode_footer, varint
from graveler.sstable.properties import (
    HOST,
    ORIGINAL_FILE_NUMBER,
    ROCKSDB_PROPERTIES,
    SESSION,
)

_FORMAT_VERSION: Final = 5
_SESSION_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SESSION_LENGTH: Final = 20
_ONE_RUN: Final = 1 << 31


def finalize(path: Path, identity: bytes, properties: Mapping[str, bytes]) -> None:
    """Rewrite the end of the table at `path` and make the file durable.

    Args:
        path: A table that RocksDB has finished, in version 5 with XXH3.
        identity: What identifies these records: their range id.
        properties: The user's to add, as a table has them.

    Raises:
        InternalError: The table is not as the writer asked RocksDB to make it.
    """
    path.chmod(PRIVATE_FILE)
    with path.open("r+b") as file:
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            # RocksDB drops what it wrote from the page cache: read the end alone, nothing ahead
            data.madvise(MADV_RANDOM)
            blocks = BlockFile(data)
            start, tail = _tail(blocks, identity, properties)
        file.seek(start)
        file.write(tail)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _tail(blocks: BlockFile, identity: bytes, properties: Mapping[str, bytes]) -> tuple[int, bytes]:
    footer = blocks.footer
    start, size = blocks.properties_handle
    if (footer.version, footer.kind) != (_FORMAT_VERSION, XXH3):
        raise InternalError(f"RocksDB wrote version {footer.version}, checksum {footer.kind}")
    if footer.metaindex.offset != start + size + TRAILER_BYTES:
        raise InternalError(f"RocksDB's properties at {start} are not before the metaindex")
    _, index = blocks.stored(blocks.index)
    merged = {
        **blocks.properties(),
        **properties,
        SESSION: _session(identity, index),
        HOST: b"",
        ORIGINAL_FILE_NUMBER: varint(1),
    }
    pairs = sorted((name.encode("latin-1"), value) for name, value in merged.items())
    property_block = encode_block(pairs, _ONE_RUN)
    named = blocks.metaindex | {ROCKSDB_PROPERTIES: Handle(start, len(property_block))}
    metaindex = encode_block(
        ((name, b"".join(map(varint, handle))) for name, handle in sorted(named.items())), 1
    )
    metaindex_handle = Handle(start + len(property_block) + TRAILER_BYTES, len(metaindex))
    end = metaindex_handle.offset + len(metaindex) + TRAILER_BYTES
    renewed = Footer(XXH3, _FORMAT_VERSION, metaindex_handle, blocks.index, 0, end)
    return start, _sealed(property_block) + _sealed(metaindex) + encode_footer(renewed)


def _sealed(block: bytes) -> bytes:
    checksum = xxh3(block, NO_COMPRESSION)
    return block + bytes((NO_COMPRESSION,)) + checksum.to_bytes(4, "little")


def _session(identity: bytes, index: bytes) -> bytes:
    """Return 20 digits of base 36, the form in which RocksDB takes a session id."""
    digest = sha256(len(identity).to_bytes(8, "big") + identity + index).digest()
    number = int.from_bytes(digest, "big")
    digits = []
    for _ in range(_SESSION_LENGTH):
        number, digit = divmod(number, len(_SESSION_DIGITS))
        digits.append(_SESSION_DIGITS[digit])
    return "".join(digits).encode()
