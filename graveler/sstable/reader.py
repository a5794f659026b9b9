"""Reading a table that may be damaged or hostile: its blocks, then its records.

Every block is read by its handle, verified and decompressed.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import chain
from mmap import mmap
from typing import Final

from graveler.errors import CorruptionError
from graveler.sstable.block import Batch, Columns, batches, bounds, entries, run_of
from graveler.sstable.compression import decompress, decompressed_size
from graveler.sstable.format import (
    CHECKSUMS,
    FOOTER_BYTES,
    LEVELDB,
    TRAILER_BYTES,
    DamageError,
    Footer,
    Handle,
    decode_footer,
    located,
    read_handle,
)
from graveler.sstable.metadata import (
    ROCKSDB_PROPERTIES,
    Index,
    check_readable,
    index_form,
    read_index,
    record_count,
    user_properties,
)

_TOGETHER: Final = 4 << 20
"""Bytes of blocks that are decoded together, about."""
_MANY: Final = 50_000
"""Records that take as long to decode one by one as numpy takes to load."""

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
        if metaindex.offset + metaindex.size + TRAILER_BYTES != self.footer.start:
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
        """Return the properties; names are ASCII, what is not comes out as Latin-1.

        LevelDB writes none.
        """
        if self.footer.version == LEVELDB and ROCKSDB_PROPERTIES not in self.metaindex:
            return {}
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
        computed = (self._checksum(stored, compression) + self.footer.context(offset)) & _MASK_32
        if computed != expected:
            raise DamageError(f"checksum {computed:08x}, stored {expected:08x}")
        return compression, stored


class _Decoded:
    """What this process has decoded one by one.

    Attributes:
        records: How many, by the tables' own word.
    """

    records = 0


def loaded(records: int) -> bool:
    """Return whether numpy serves these records: it is loaded, or has become worth it."""
    if "numpy" in sys.modules:
        return True
    _Decoded.records += records
    return _Decoded.records >= _MANY


class TableReader:
    """The records of a table, in order or by key.

    Opening reads the footer, the metaindex, the properties and the index. Everything is verified when it is
    read: checksums, sizes before memory is taken, keys that ascend
    over the whole table and lie in the block that the index names. Anything else
    raises CorruptionError with the table's name, the place and the reason, and nothing
    else is raised for any input.

    A checksum shows that a block is as it was written, not who wrote it: verify the records of a
    table from elsewhere against the range id.

    Any number of threads may use one reader.

    Attributes:
        name: What messages call the table.
        properties: All properties as stored, RocksDB's and graveler's.
        count: Records, as the properties have it; a whole scan checks it. None where LevelDB
            wrote the table, which does not count them.
    """

    def __init__(self, data: Data, *, name: str = "table") -> None:
        """Open the table in `data`, the whole file in memory or mapped."""
        self.name = name
        try:
            self._blocks = BlockFile(data)
            self.properties: dict[str, bytes] = self._blocks.properties()
            check_readable(self._blocks.metaindex, self.properties)
            self.count: int | None = (
                None
                if self._blocks.footer.version == LEVELDB and not self.properties
                else record_count(self.properties)
            )
            self._index: Index = read_index(
                self._blocks.read, self._blocks.index, index_form(self.properties)
            )
        except DamageError as error:
            raise self._corruption(str(error)) from error

    @cached_property
    def user_properties(self) -> dict[str, str]:
        """The properties that graveler set, without their prefix."""
        try:
            return user_properties(self.properties)
        except DamageError as error:
            raise self._corruption(str(error)) from error

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return the records (key, value) in the order of their keys.

        Args:
            start: The first key; it need not exist.

        Raises:
            CorruptionError: While iterating; what came before was right.
        """
        return chain.from_iterable(self._batches(start))

    def columns(self) -> Iterator[Columns]:
        """Yield all records in key order, some hundred at a time.

        Raises:
            CorruptionError: While iterating; what came before was right.
        """
        together = loaded(self.count or 0)
        total = position = 0
        while position < len(self._index.handles):
            start = position
            if together:
                for complete, found in self._together(start):
                    position = start + complete
                    total += len(found.keys)
                    yield found
                together = position > start
            if not together:
                for batch in self._block(position, b""):
                    total += len(batch)
                    yield Columns.of(batch)
                position += 1
        self._check_total(total)

    def _together(self, start: int) -> Iterator[tuple[int, Columns]]:
        """Yield records from a block on, with the number of blocks that are complete then.

        It ends after some MiB, or where a block is damaged or has an uncommon form.
        """
        from graveler.sstable.columns import Blocks  # noqa: PLC0415 - it loads numpy

        separators, handles = self._index
        stored: list[tuple[int, bytes]] = []
        size, stop = 0, start
        with suppress(DamageError):
            while stop < len(handles) and size < _TOGETHER:
                stored.append(self._blocks.stored(handles[stop]))
                size += decompressed_size(*stored[-1])
                stop += 1
            if size < 2 * _TOGETHER:
                after = separators[start - 1] if start else b""
                yield from Blocks(stored).columns(separators[start:stop], after)

    def get(self, key: bytes) -> bytes | None:
        """Return the value under `key`, None where there is none.

        Raises:
            CorruptionError: The block that could hold it is damaged.
        """
        position = bisect_left(self._index.separators, key)
        if position == len(self._index.separators):
            return None
        items = chain.from_iterable(self._block(position, key, most=1))
        return next((value for candidate, value in items if candidate == key), None)

    def _batches(self, start: bytes) -> Iterator[Batch]:
        first = bisect_left(self._index.separators, start)
        total = 0
        for position in range(first, len(self._index.separators)):
            for batch in self._block(position, start if position == first else b""):
                total += len(batch)
                # a tuple of the key alone sorts before the record of that key
                yield batch[bisect_left(batch, (start,)) :] if position == first else batch
        if not start:
            self._check_total(total)

    def _check_total(self, total: int) -> None:
        if self.count is not None and total != self.count:
            raise self._corruption(f"{total} records, but its properties say {self.count}")

    def _block(self, position: int, start: bytes, most: int | None = None) -> Iterator[Batch]:
        """Yield the records of one data block, from `most` runs, the one of `start` first."""
        separators, handles = self._index
        before = separators[position - 1] if position else None
        try:
            block = self._blocks.read(handles[position])
            runs = bounds(block)
            first = run_of(block, runs, start) if start else 0
            for batch in batches(block, runs[first : first + most + 1 if most else None], before):
                if batch[-1][0] > separators[position]:
                    raise DamageError(f"key {batch[-1][0]!r} is past its index entry")  # noqa: TRY301
                yield batch
        except DamageError as error:
            place = f"data block at {handles[position].offset}"
            raise self._corruption(f"{place}: {error}") from error

    def _corruption(self, reason: str) -> CorruptionError:
        return CorruptionError(
            f"{self.name}: {reason}; keep the file; `graveler fsck` shows what needs it"
        )
