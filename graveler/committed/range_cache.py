"""The cache of the tables of a host: in their local form, on disk and in memory."""

import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, overload

from graveler.base.forks import watch
from graveler.base.telemetry import cache as counts
from graveler.committed.disk_cache import DiskCache, TablePair
from graveler.committed.flat import Buffer, DamagedFileError, FlatTable, OtherVersionError, Rebuild
from graveler.committed.form import Form, Piece
from graveler.committed.metarange_memory import MetarangeMemory
from graveler.committed.table import KINDS, FinishedTable, TableKind, check_table, own_table
from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.sstable.reader import TableReader
from graveler.values import range_id, record_id

_MEMORY_BYTES = 128 << 20
_ONLY_BYTES = 1 << 30
_LOCKS = 64
_MOST_OPEN = 16_384
"""Tables in memory at once: a quarter of the files that a process on Linux may have mapped."""


class _Left(NamedTuple):
    """A table in memory that was written on this host and has not been read."""

    data: bytes
    record_ids: bytes
    own: bool = True

    @property
    def memory_bytes(self) -> int:
        """The memory that it takes, in bytes."""
        return len(self.data) + len(self.record_ids)


class RangeCache:
    """Tables in their local form, on disk and in memory. Least recently used tables are evicted.

    Tables are immutable and their ids cover every byte of their records, so a cached table is never
    out of date. A hit in memory takes no lock: it marks the table as used. A marked table that is
    next in line for eviction loses its mark instead. Only checked tables may be added: see
    `graveler.committed.table`. A cache can be pickled. The copy is empty in memory, and shares the
    folder if there is one.

    Args:
        folder: Folder of the files, shared with other processes. None keeps tables only in memory.
        max_bytes: Bound of the files. Tables in memory that are not mapped have the same bound,
            but at most 128 MiB with a folder, and 1 GiB without one.
    """

    def __init__(self, folder: Path | None, max_bytes: int) -> None:
        self._terms = (folder, max_bytes)
        self._disk = None if folder is None else DiskCache(folder, max_bytes)
        self._memory_max = min(max_bytes, _ONLY_BYTES if folder is None else _MEMORY_BYTES)
        self._memory_bytes = 0
        self._opened: OrderedDict[bytes, FlatTable | _Left] = OrderedDict()
        self.metaranges = MetarangeMemory()
        self._begin()
        watch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return RangeCache, self._terms

    def _begin(self) -> None:
        self._lock = Lock()
        self._singles = [Lock() for _ in range(_LOCKS)]

    def after_fork_in_child(self) -> None:
        """Replace the locks and count again: threads of the parent may have held the locks."""
        self._begin()
        self._memory_bytes = sum(table.memory_bytes for table in self._opened.values())

    @property
    def damaged(self) -> int:
        """The number of damaged files that were found on disk and removed."""
        return 0 if self._disk is None else self._disk.damaged

    @property
    def memory_bytes(self) -> int:
        """The size of the tables in memory, without those that are mapped from disk."""
        return self._memory_bytes

    def single(self, identifier: bytes) -> AbstractContextManager[object]:
        """Let one caller at a time fetch a table, among all processes that share the folder."""
        if self._disk is not None:
            return self._disk.single(identifier.hex())
        return self._singles[identifier[0] % _LOCKS]

    def known(
        self, identifier: bytes, kind: TableKind, digest: bytes | None = None
    ) -> FlatTable | None:
        """Return a table that is open in memory, or None. See `get`."""
        table = self._opened.get(identifier)
        if type(table) is not FlatTable or table.kind != KINDS[kind]:
            return None
        if table.digest != digest and not table.numbered:
            return None
        table.used = True
        counts.memory += 1
        return table

    def compared(self, info: RangeInfo) -> FlatTable | None:
        """Return a range that is open in memory and was compared with `info`, or None."""
        table = self._opened.get(info.id)
        if type(table) is not FlatTable or table.checked is not info:
            return None
        table.used = True
        counts.memory += 1
        return table

    def get(
        self,
        identifier: bytes,
        kind: TableKind,
        digest: bytes | None,
        rebuild: Rebuild,
        *,
        keep: bool = True,
    ) -> FlatTable | None:
        """Return the table in its local form, or None if the form has to be built.

        Args:
            digest: The digest of its records. A form that was verified against the digest is
                accepted like one with record ids. None: only a form with record ids is accepted.
            rebuild: Builds the form again if it is damaged on disk.
            keep: Keep the table open, for more lookups. A scan does not keep it.
        """
        table = self.known(identifier, kind, digest)
        if table is not None:
            return table
        table = self._on_disk(identifier, kind, rebuild)
        if table is None or (table.digest != digest and not table.numbered):
            return None
        counts.disk += 1
        return self._hold(identifier, table) if keep else table

    def _on_disk(self, identifier: bytes, kind: TableKind, rebuild: Rebuild) -> FlatTable | None:
        """Return the local form on disk, with or without record ids."""
        if self._disk is None:
            return None
        name = identifier.hex()
        found = self._disk.load_flat(name)
        if found is None:
            return None
        if found.full:
            self.clear()  # so that the process can map memory again, as for threads
        try:
            table = _opened(found.buffer, identifier, kind, rebuild)
            if not found.own:
                _check_records(table, identifier)
        except OtherVersionError:
            return None
        except (DamagedFileError, CorruptionError):
            self._disk.drop_damaged(name)
            return None
        return table

    def convert(
        self,
        identifier: bytes,
        kind: TableKind,
        digest: bytes | None,
        rebuild: Rebuild,
        *,
        keep: bool = True,
    ) -> FlatTable | None:
        """Return the result of `get`, built from another form in this cache, or None without one.

        The other form is a table that a writer left, or a local form without record ids.
        """
        left: _Left | TablePair | FlatTable | None = self._opened.get(identifier)
        if not isinstance(left, _Left):
            left = None if self._disk is None else self._disk.load(identifier.hex())
        if left is None:
            return None if digest else self._number(identifier, kind, rebuild, keep=keep)
        reader = TableReader(left.data, name=identifier.hex())
        try:
            if left.own:
                form = own_table(reader, identifier, kind, left.record_ids)
            else:
                form = check_table(reader, identifier, kind)
        except CorruptionError:
            if self._disk is not None:
                self._disk.drop_damaged(identifier.hex())
            return None
        return self.add(identifier, kind, form, digest, rebuild, keep=keep)

    def _number(
        self, identifier: bytes, kind: TableKind, rebuild: Rebuild, *, keep: bool
    ) -> FlatTable | None:
        """Return a table with record ids, computed from its local form, or None if it has none."""
        table = self._opened.get(identifier)
        if not isinstance(table, FlatTable):
            table = self._on_disk(identifier, kind, _not_again)
        if table is None:
            return None
        form, ids = Form(), bytearray()
        try:
            for run in table.runs():
                keys, values = run.columns()
                form.add(keys, values)
                ids += b"".join(map(record_id, keys, values))
            if range_id((bytes(ids),)) != identifier:
                raise CorruptionError(f"cached {table.name} holds other records")
        except CorruptionError:
            if self._disk is not None:
                self._disk.drop_damaged(identifier.hex())
            return None
        pieces = form.finish(KINDS[kind], identifier, bytes(ids))
        return self.add(identifier, kind, pieces, None, rebuild, keep=keep)

    def add(
        self,
        identifier: bytes,
        kind: TableKind,
        form: Sequence[Piece],
        digest: bytes | None,
        rebuild: Rebuild,
        *,
        keep: bool = True,
    ) -> FlatTable:
        """Keep the local form of a checked table. Return the open table."""
        if self._disk is not None and self._disk.add_flat(identifier.hex(), form):
            table = self.get(identifier, kind, digest, rebuild, keep=keep)
            if table is not None:
                return table
        return self._hold(identifier, _opened(b"".join(form), identifier, kind, rebuild))

    def mend(self, identifier: bytes, form: Sequence[Piece]) -> bytes:
        """Keep the local form that replaces a damaged one, and return its bytes.

        The cache drops the open table. Current readers keep it, the next reader maps the new file.
        """
        with self._lock:
            self._release(identifier)
        if self._disk is not None:
            name = identifier.hex()
            self._disk.drop_damaged(name)
            self._disk.add_flat(name, form)
        return b"".join(form)

    def adopt(self, table: FinishedTable, data: bytes, *, stored: Path | None) -> None:
        """Keep a table that this process has written.

        The first read of a table that is not small builds its local form.

        Args:
            table: The table. If it is a file on disk, the file is moved.
            data: The bytes of the table.
            stored: The object store's file of the table, if it has files. The cache links it.
        """
        name, record_ids = table.identifier.hex(), table.record_ids
        if self._disk is None:
            self._hold(table.identifier, _Left(data, record_ids))
        elif table.form:
            self._disk.add_flat(name, table.form)
        elif table.file.on_disk:
            self._disk.adopt(name, data, table.file.path, record_ids)
        elif stored is not None:
            self._disk.link(name, data, stored, record_ids)
        else:
            self._disk.add(name, data, record_ids)

    def has(self, identifier: bytes) -> bool:
        """Return whether the cache has the table, in any form. It can be evicted at any time."""
        if identifier in self._opened:
            return True
        return self._disk is not None and self._disk.has(identifier.hex())

    def scratch(self) -> Path:
        """Return a new folder for a writer's files, on the cache's own disk where possible.

        The caller removes it. It is not a TemporaryDirectory, because a forked child would remove
        the folder of its parent when the child ends.
        """
        place = None if self._disk is None else self._disk.scratch()
        return Path(tempfile.mkdtemp(prefix="graveler-", dir=place))

    @overload
    def _hold(self, identifier: bytes, table: FlatTable) -> FlatTable: ...

    @overload
    def _hold(self, identifier: bytes, table: _Left) -> _Left: ...

    def _hold(self, identifier: bytes, table: FlatTable | _Left) -> FlatTable | _Left:
        with self._lock:
            self._release(identifier)
            self._opened[identifier] = table
            self._memory_bytes += table.memory_bytes
            while self._memory_bytes > self._memory_max or len(self._opened) > _MOST_OPEN:
                oldest, kept = next(iter(self._opened.items()))
                if type(kept) is FlatTable and kept.used and len(self._opened) > 1:
                    kept.used = False
                    self._opened.move_to_end(oldest)
                else:
                    self._release(oldest)
                    counts.evicted_from_memory += 1
        return table

    def clear(self) -> None:
        """Drop all tables from memory; their files on disk stay."""
        with self._lock:
            self._opened.clear()
            self._memory_bytes = 0
        self.metaranges.clear()

    def _release(self, identifier: bytes) -> None:
        table = self._opened.pop(identifier, None)
        if table is not None:
            self._memory_bytes -= table.memory_bytes


def _opened(buffer: Buffer, identifier: bytes, kind: TableKind, rebuild: Rebuild) -> FlatTable:
    name = f"{kind} {identifier.hex()}"
    return FlatTable(buffer, KINDS[kind], identifier, name=name, rebuild=rebuild)


def _check_records(table: FlatTable, identifier: bytes) -> None:
    """Verify a form that another user wrote.

    Its records must match its digest, or the id. A form built from its records must have the same
    bytes, because a false index would hide records.
    """
    keys, values = table.run().columns()
    if not keys:
        raise CorruptionError(f"cached {table.name} holds no record")
    form = Form()
    form.add(keys, values)
    ids = b"".join(map(record_id, keys, values)) if table.numbered else b""
    named = range_id((ids,)) == identifier if ids else form.digest()() == table.digest
    if named:
        made = form.finish(table.kind, identifier, ids, digest=table.digest)
        if b"".join(made) == bytes(table.buffer):
            return
    raise CorruptionError(f"cached {table.name} holds other records")


def _not_again(_numbered: bool) -> bytes:
    raise DamagedFileError("it is built from its records")
