"""The tables of a tree: the file to which a table is written, and the check of an open table.

The checksums of blocks prove that the bytes are those that were written; only the id, computed from
the records, proves that they are those that the tree names. A few tables at a time are written to
memory, because RocksDB makes each file durable and drops it from the page cache, which is most of
the cost of a small one.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from graveler.base.background import Threads
from graveler.base.records import FORMAT, check_format
from graveler.committed.cache.form import Form, Piece
from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.sstable.block import Columns
from graveler.sstable.reader import TableReader
from graveler.values import range_id, record_id

_MOST_IN_MEMORY = 18
"""The maximum number of files at a time: those of the publisher and the one that is written."""
_LARGEST_IN_MEMORY = 64 << 20
_DESCRIPTORS = Path("/proc/self/fd")


class TableFile:
    """The file of one table. Close it after it is published, or when it is no longer needed."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.on_disk = descriptor is None
        self._descriptor = descriptor
        self._data: bytes | None = None

    @property
    def closed(self) -> bool:
        """Whether its memory is released. A file on disk has no memory."""
        return self._descriptor is None

    def read(self) -> bytes:
        """Return the whole content."""
        return self.path.read_bytes() if self._data is None else self._data

    def load(self) -> int:
        """Read a file in memory into bytes while it is still in the processor's cache."""
        if self.on_disk:
            return self.path.stat().st_size
        self._data = self.read()
        self.close()
        return len(self._data)

    def close(self) -> None:
        """Remove the file unless it was moved. The call may be repeated."""
        if self.on_disk:
            self.path.unlink(missing_ok=True)
        elif self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


class Scratch:
    """The files of one writer."""

    def __init__(self, folder: Callable[[], Path], *, largest: int) -> None:
        self._make_folder = folder
        self._memory = largest <= _LARGEST_IN_MEMORY
        self._folder: Path | None = None
        self._files: list[TableFile] = []
        self._count = 0

    def file(self) -> TableFile:
        """Return a new file."""
        self._files = [file for file in self._files if not file.closed]
        file = _new_memory_file() if self._memory and len(self._files) < _MOST_IN_MEMORY else None
        if file is not None:
            self._files.append(file)
            return file
        if self._folder is None:
            self._folder = self._make_folder()
        self._count += 1
        return TableFile(self._folder / f"{self._count}.sst", None)

    def close(self) -> None:
        """Remove all files. The call may be repeated."""
        for file in self._files:
            file.close()
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _new_memory_file() -> TableFile | None:
    """Return a new file in memory, or None if the system has no such files that can be opened."""
    if not hasattr(os, "memfd_create"):
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
    """The content of a table: entries by path, or ranges by last key."""

    RANGE = "range"
    METARANGE = "metarange"


KINDS = {TableKind.RANGE: 1, TableKind.METARANGE: 2}
"""Their numbers in the local form."""

SMALL_RECORDS = 4_096
"""Maximum number of records of a small table. Its writer builds the local form at once, because the
table is likely to be read soon."""
SMALL_BYTES = 1 << 20
"""Maximum size of the keys and values of a small table."""


class FinishedTable(NamedTuple):
    """A table that can be published."""

    identifier: bytes
    kind: TableKind
    file: TableFile
    record_ids: bytes
    form: Sequence[Piece] = ()


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


def check_table(
    reader: TableReader, identifier: bytes, kind: TableKind, record_ids: bytes = b""
) -> list[Piece]:
    """Return the local form of a sound table.

    Args:
        record_ids: The ids of its records, of a table of this process. It is then not checked.
    """
    form = Form()
    if not record_ids:
        ids: list[bytes] = []
        for some, each in checked(reader, identifier, kind):
            form.add(*some)
            ids.append(each)
        return form.finish(KINDS[kind], identifier, b"".join(ids))
    if range_id((record_ids,)) != identifier:
        raise CorruptionError(f"{kind} {identifier.hex()} has the record ids of another table")
    for some in reader.columns():
        form.add(*some)
    return form.finish(KINDS[kind], identifier, record_ids)


def checked(
    reader: TableReader, identifier: bytes, kind: TableKind
) -> Iterator[tuple[Columns, bytes]]:
    """Yield the records of a table in batches, each with their ids.

    The table is known to be sound only at the end of the iterator.
    """
    what = f"{kind} {identifier.hex()}"
    _check_format(reader, what)
    digest = sha256()
    first = last = b""
    count = size = 0
    for some in reader.columns():  # the reader checks that keys ascend
        keys, values, _ = some
        ids = b"".join(map(record_id, keys, values))
        digest.update(ids)
        first, last = first or keys[0], keys[-1]
        count += len(keys)
        size += sum(map(len, keys)) + sum(map(len, values))
        yield some, ids
    if digest.digest() != identifier or not count:
        raise CorruptionError(f"{what} holds the records of {digest.hexdigest()} ({count} of them)")
    _check_properties(reader, kind, RangeInfo(identifier, first, last, count, size))


def check_range(reader: TableReader, identifier: bytes, digest: bytes) -> list[Piece]:
    """Return the local form of a sound range without the ids of its records."""
    what = f"{TableKind.RANGE} {identifier.hex()}"
    _check_format(reader, what)
    form = Form()
    first = last = b""
    for some in reader.columns():
        form.add(*some)
        first, last = first or some.keys[0], some.keys[-1]
    if not form.count:
        raise CorruptionError(f"{what} holds no record")
    info = RangeInfo(identifier, first, last, form.count, form.size)
    with Threads(1) as beside:  # SHA-256 of many bytes releases the GIL
        found = beside.submit(form.digest()).result
        file = form.finish(KINDS[TableKind.RANGE], identifier, digest=digest)
    if (computed := found()) != digest:
        raise CorruptionError(
            f"{what} holds {info.count} records of digest {computed.hex()}, its metarange says "
            f"{digest.hex()}"
        )
    _check_properties(reader, TableKind.RANGE, info)
    return file


def _check_format(reader: TableReader, what: str) -> None:
    stated = reader.user_properties.get("format", "1")  # tables of the first format do not state it
    check_format(int(stated) if stated.isdecimal() else stated, what)


def _check_properties(reader: TableReader, kind: TableKind, info: RangeInfo) -> None:
    properties = reader.user_properties
    what = f"{kind} {info.id.hex()}"
    for name, expected in table_properties(kind, info).items():
        if properties.get(name) != expected:
            raise CorruptionError(
                f"{what}: property {name} is {properties.get(name)!r}, its records say {expected!r}"
            )


def local_form(
    kind: TableKind,
    info: RangeInfo,
    record_ids: bytes,
    columns: Iterable[tuple[Sequence[bytes], Sequence[bytes]]],
) -> list[Piece]:
    """Return the local form of a small table that is being written, or nothing for a larger one.

    Args:
        columns: The records. If some are missing, there is no form.
    """
    form = Form()
    if info.size <= SMALL_BYTES:
        for some in columns:
            form.add(*some)
    if form.count < info.count:
        return []
    return form.finish(KINDS[kind], info.id, record_ids)
