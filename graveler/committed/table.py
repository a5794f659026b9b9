"""A table of a tree: the file into which it is written, and the table opened and checked.

The checksums of the blocks prove that the bytes are those that were written. Only the id proves that
they are the records that the tree names. It is recomputed from the records.

RocksDB makes each file durable and drops it from the page cache when it closes the file. Neither
helps here, because the object store has its own durable copy, and both are most of the cost of a
small table. So a table is written into memory where the system has files in memory, a few at a time,
and into a scratch folder elsewhere.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.records import FORMAT, check_format
from graveler.sstable.reader import TableReader
from graveler.values import RECORD_ID_BYTES, record_id

_MOST_IN_MEMORY: Final = 10
"""Files at once: as many as the publisher puts and one writer writes."""
_LARGEST_IN_MEMORY: Final = 64 << 20
_DESCRIPTORS: Final = Path("/proc/self/fd")


class TableFile:
    """The file of one table; close it when it is published or no longer needed.

    Attributes:
        path: Where a writer writes.
        on_disk: Whether it can be moved to another place on its disk.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.on_disk = descriptor is None
        self._descriptor = descriptor

    @property
    def closed(self) -> bool:
        """Whether its memory is released; a file on disk has none."""
        return self._descriptor is None

    def read(self) -> bytes:
        """Return all of it."""
        if self._descriptor is None:
            return self.path.read_bytes()
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)

    def close(self) -> None:
        """Remove it, unless it was moved away; may be called twice."""
        if self.on_disk:
            self.path.unlink(missing_ok=True)
        elif self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


class Scratch:
    """The files of one writer.

    Args:
        folder: Makes the folder for files on disk, when the first one is needed.
        largest: Bytes that a file may have, about.
    """

    def __init__(self, folder: Callable[[], Path], *, largest: int) -> None:
        self._make_folder = folder
        self._memory = largest <= _LARGEST_IN_MEMORY
        self._folder: Path | None = None
        self._files: list[TableFile] = []
        self._count = 0

    def file(self) -> TableFile:
        """Return a new file."""
        self._files = [file for file in self._files if not file.closed]
        file = self._in_memory() if len(self._files) < _MOST_IN_MEMORY else None
        if file is not None:
            self._files.append(file)
            return file
        if self._folder is None:
            self._folder = self._make_folder()
        self._count += 1
        return TableFile(self._folder / f"{self._count}.sst", None)

    def close(self) -> None:
        """Remove everything; may be called twice."""
        for file in self._files:
            file.close()
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _in_memory(self) -> TableFile | None:
        if not self._memory or not hasattr(os, "memfd_create"):
            return None
        try:
            descriptor = os.memfd_create("graveler-table", os.MFD_CLOEXEC)
        except OSError:
            return None
        path = _DESCRIPTORS / str(descriptor)
        if not path.exists():  # no /proc, as in some containers
            os.close(descriptor)
            return None
        return TableFile(path, descriptor)


class TableKind(StrEnum):
    """What a table holds: entries behind paths, or ranges behind their last keys."""

    RANGE = "range"
    METARANGE = "metarange"


def table_properties(kind: TableKind, info: RangeInfo) -> dict[str, str]:
    """Return the user properties of the file of a table."""
    return {
        "format": str(FORMAT),
        "type": kind.value,
        "min_key": info.min_key.hex(),
        "max_key": info.max_key.hex(),
        "count": str(info.count),
        "size": str(info.size),
    }


def check_table(reader: TableReader, identifier: bytes, kind: TableKind) -> bytes:
    """Return the record ids of a sound table, 32 bytes each, in key order.

    Raises:
        CorruptionError: A block is damaged, keys do not ascend, the records give another
            id, or the properties do not describe them.
        NewerFormatError: A newer graveler wrote it.
        OlderFormatError: An older graveler wrote it.
    """
    return b"".join(checked_ids(reader, identifier, kind))


def checked_ids(reader: TableReader, identifier: bytes, kind: TableKind) -> Iterator[bytes]:
    """Yield the record ids of a table in key order; raise as `check_table` does.

    The table is known to be sound only at the end of the iterator.
    """
    what = f"{kind} {identifier.hex()}"
    properties = reader.user_properties
    stated = properties.get("format", "1")  # the first format did not name itself
    check_format(int(stated) if stated.isdecimal() else stated, what)
    digest = sha256()
    first = last = b""
    count = size = 0
    for key, value in reader.items():
        if key <= last:
            raise CorruptionError(f"{what}: key {key!r} does not come after {last!r}")
        identity = record_id(key, value)
        digest.update(identity)
        yield identity
        size += len(key) + len(value)
        first = first or key
        last = key
        count += 1
    if digest.digest() != identifier:
        raise CorruptionError(f"{what} holds the records of {digest.hexdigest()} ({count} of them)")
    info = RangeInfo(identifier, first, last, count, size)
    for name, expected in table_properties(kind, info).items():
        if properties.get(name) != expected:
            raise CorruptionError(
                f"{what}: property {name} is {properties.get(name)!r}, its records say {expected!r}"
            )


Record = tuple[bytes, bytes, bytes]
"""Key, record id, value record."""

_STEP: Final = RECORD_ID_BYTES


class Table:
    """A range or metarange file in memory, checked; shared by threads, never changed."""

    __slots__ = ("_bounds", "_reader", "memory_bytes", "record_ids")

    def __init__(self, data: bytes, record_ids: bytes, *, name: str) -> None:
        self._reader = TableReader(data, name=name)
        self.record_ids = record_ids
        self.memory_bytes = len(data) + len(record_ids)
        stated = self._reader.user_properties
        count = len(record_ids) // _STEP
        self._bounds = stated.get("min_key"), stated.get("max_key"), count

    def is_as(self, info: RangeInfo) -> bool:
        """Return whether first key, last key and number of records are those of `info`."""
        return self._bounds == (info.min_key.hex(), info.max_key.hex(), info.count)

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return key and value of each record from `start` on, in key order."""
        return self._reader.items(start)

    def get(self, key: bytes) -> bytes | None:
        """Return the value behind `key`, None where there is no such record."""
        return self._reader.get(key)

    def records(self) -> list[Record]:
        """Return every record with its id, without hashing anything."""
        ids = self.record_ids
        places = range(0, len(ids), _STEP)
        return [
            (key, ids[at : at + _STEP], value)
            for (key, value), at in zip(self._reader.items(), places, strict=True)
        ]
