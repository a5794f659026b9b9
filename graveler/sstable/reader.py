"""Reading a table that may be damaged or hostile: its blocks, then its records.

The reader finds each block by its handle, verifies it and decompresses it.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import chain
from mmap import mmap

from graveler.errors import CorruptionError
from graveler.sstable.block import Batch, Columns, batches, entries
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

_TOGETHER = 4 << 20
"""About how many bytes of blocks are decoded together."""
_MANY = 50_000
"""How many records can be decoded one by one in the time in which numpy loads."""

Data = bytes | bytearray | memoryview | mmap
"""The whole file, in memory or mapped."""
_INDEX = b"rocksdb.index"
_MASK_32 = 0xFFFFFFFF


class BlockFile:
    """A table as a set of blocks. It raises only DamageError."""

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
        """Return the properties, none for a table of LevelDB without them."""
        if self.footer.version == LEVELDB and ROCKSDB_PROPERTIES not in self.metaindex:
            return {}
        handle = self.properties_handle
        with located(f"properties at {handle.offset}"):
            pairs = entries(self.read(handle))
            return {name.decode("latin-1"): value for name, value in pairs}

    def read(self, handle: Handle) -> bytes:
        """Return the block at `handle`, verified and decompressed."""
        return decompress(*self.stored(handle))

    def stored(self, handle: Handle) -> tuple[int, bytes]:
        """Return the compression type of a block, and its verified bytes as stored in the file."""
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
    """The records that this process has decoded one by one."""

    records = 0


def loaded(records: int) -> bool:
    """Return whether to use numpy: it is loaded, or enough records are read to load it."""
    if "numpy" in sys.modules:
        return True
    _Decoded.records += records
    return _Decoded.records >= _MANY


class TableReader:
    """The records of a table, in order.

    Opening reads the footer, the metaindex, the properties and the index. The reader verifies
    what it reads: checksums, sizes before it allocates memory, that keys ascend over the whole
    table, and that each key lies in the block that the index names. Damage raises CorruptionError
    with the table's name, the place and the reason. No input raises another exception.

    A checksum proves that a block is as written, not who wrote it. Verify the records of a table
    from elsewhere against the range id.

    Any number of threads may use one reader.

    Attributes:
        count: Number of records, from the properties. A full scan checks it. None for a table of
            LevelDB, which does not count its records.
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

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Return the records (key, value) in the order of their keys."""
        return chain.from_iterable(
            zip(some.keys, some.values, strict=True) for some in self.columns()
        )

    def columns(self) -> Iterator[Columns]:
        """Yield all records in key order, some hundred at a time."""
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
                for batch in self._block(position):
                    total += len(batch)
                    yield Columns.of(batch)
                position += 1
        if self.count is not None and total != self.count:
            raise self._corruption(f"{total} records, but its properties say {self.count}")

    def _together(self, start: int) -> Iterator[tuple[int, Columns]]:
        """Yield records from a block on, each time with the number of blocks complete by then."""
        from graveler.sstable.columns import Blocks

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

    def _block(self, position: int) -> Iterator[Batch]:
        """Yield the records of a data block."""
        separators, handles = self._index
        before = separators[position - 1] if position else None
        try:
            for batch in batches(self._blocks.read(handles[position]), before):
                if batch[-1][0] > separators[position]:
                    raise DamageError(f"key {batch[-1][0]!r} is past its index entry")
                yield batch
        except DamageError as error:
            place = f"data block at {handles[position].offset}"
            raise self._corruption(f"{place}: {error}") from error

    def _corruption(self, reason: str) -> CorruptionError:
        return CorruptionError(
            f"{self.name}: {reason}; keep the file; `graveler fsck` shows what needs it"
        )
