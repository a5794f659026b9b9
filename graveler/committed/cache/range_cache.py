"""The cache of the tables of a host: in their local form, on disk and in memory."""

import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from graveler.base.forks import watch
from graveler.base.telemetry import cache as counts
from graveler.committed.cache.disk_cache import DiskCache, TablePair
from graveler.committed.cache.flat import (
    Buffer,
    DamagedFileError,
    FlatTable,
    OtherVersionError,
    Rebuild,
)
from graveler.committed.cache.form import Form, Piece
from graveler.committed.cache.table import KINDS, FinishedTable, TableKind, check_table
from graveler.committed.tree import Tree
from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.sstable.reader import TableReader
from graveler.values import range_id, record_id

_MEMORY_BYTES = 128 << 20
_ONLY_BYTES = 1 << 30
_LOCKS = 64
_MAX_RANGES = 200_000
_MAX_TREES = 4_096
"""A tree may have a file mapped, and a process has a limit of those: 65,530 on Linux."""
_MOST_OPEN = 16_384
"""Tables in memory at once: a quarter of the files that a process on Linux may have mapped."""


_Table = TypeVar("_Table", FlatTable, TablePair)


class MetarangeMemory:
    """Decoded metaranges by id, bounded in number and by the total number of their ranges."""

    def __init__(self, max_ranges: int = _MAX_RANGES, max_trees: int = _MAX_TREES) -> None:
        self._most = max_ranges, max_trees
        self._count = 0
        self._kept: OrderedDict[str, Tree] = OrderedDict()
        self._last: tuple[str, Tree | None] = "", None
        self._lock = Lock()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock and count again: a thread of the parent may have held the lock."""
        self._lock = Lock()
        self._count = sum(map(len, self._kept.values()))

    def get(self, metarange: str) -> Tree | None:
        """Return the ranges of a metarange, or None if it is not in memory."""
        last = self._last
        if last[0] == metarange:  # no lock: this runs for each lookup
            return last[1]
        with self._lock:
            tree = self._kept.get(metarange)
            if tree is not None:
                self._kept.move_to_end(metarange)
                self._last = metarange, tree
            return tree

    def put(self, metarange: str, tree: Tree) -> None:
        """Keep the ranges of a metarange, and drop the least recently used ones."""
        with self._lock:
            self._count += len(tree) - len(self._kept.pop(metarange, ()))
            self._kept[metarange] = tree
            while self._count > self._most[0] or len(self._kept) > self._most[1]:
                self._count -= len(self._kept.popitem(last=False)[1])
            self._last = metarange, self._kept.get(metarange)

    def clear(self) -> None:
        """Drop all metaranges."""
        with self._lock:
            self._kept.clear()
            self._count = 0
            self._last = "", None


class Wanted(NamedTuple):
    """A request for a table.

    Attributes:
        digest: The digest of its records. A form that was verified against the digest is
            accepted like one with record ids. None: only a form with record ids is accepted.
        keep: Keep the table open, for more lookups. A scan does not keep it.
    """

    identifier: bytes
    kind: TableKind
    digest: bytes | None
    rebuild: Rebuild
    keep: bool = True

    def opened(self, buffer: Buffer, rebuild: Rebuild) -> FlatTable:
        """Return the table in a file."""
        name = f"{self.kind} {self.identifier.hex()}"
        return FlatTable(buffer, KINDS[self.kind], self.identifier, name=name, rebuild=rebuild)


class RangeCache:
    """Tables in their local form, on disk and in memory. Least recently used tables are evicted.

    Tables are immutable and their ids cover every byte of their records, so a cached table is never
    out of date. A hit in memory takes no lock: it marks the table as used. A marked table that is
    next in line for eviction loses its mark instead. Only checked tables may be added: see
    `graveler.committed.cache.table`. A cache can be pickled. The copy is empty in memory, and shares the
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
        self._opened: OrderedDict[bytes, FlatTable | TablePair] = OrderedDict()
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

    def get(self, wanted: Wanted) -> FlatTable | None:
        """Return the table in its local form, or None if the form has to be built."""
        table = self.known(wanted.identifier, wanted.kind, wanted.digest)
        if table is not None:
            return table
        table = self._on_disk(wanted, wanted.rebuild)
        if table is None or (table.digest != wanted.digest and not table.numbered):
            return None
        counts.disk += 1
        return self._hold(wanted.identifier, table) if wanted.keep else table

    def _on_disk(self, wanted: Wanted, rebuild: Rebuild) -> FlatTable | None:
        """Return the local form on disk, with or without record ids."""
        if self._disk is None:
            return None
        name = wanted.identifier.hex()
        found = self._disk.load_flat(name)
        if found is None:
            return None
        if found.full:
            self.clear()  # so that the process can map memory again, as for threads
        try:
            table = wanted.opened(found.buffer, rebuild)
            if not found.own:
                # of another user: a false index would hide records
                form = _form_again(table, wanted.identifier, numbered=table.numbered)
                if b"".join(form) != bytes(table.buffer):
                    raise CorruptionError(f"cached {table.name} holds other records")
        except OtherVersionError:
            return None
        except (DamagedFileError, CorruptionError):
            self._disk.drop_damaged(name)
            return None
        return table

    def convert(self, wanted: Wanted) -> FlatTable | None:
        """Return the result of `get`, built from another form in this cache, or None without one."""
        name, kind = wanted.identifier.hex(), wanted.kind
        left = self._opened.get(wanted.identifier)
        if self._disk is not None and not isinstance(left, TablePair):
            left = self._disk.load(name) or left
        try:
            if isinstance(left, TablePair):
                ids = left.record_ids if left.own else b""
                form = check_table(TableReader(left.data, name=name), wanted.identifier, kind, ids)
            else:
                table = None if wanted.digest else left or self._on_disk(wanted, _not_again)
                if table is None:
                    return None
                form = _form_again(table, wanted.identifier, numbered=True)
        except CorruptionError:
            if self._disk is not None:
                self._disk.drop_damaged(name)
            return None
        return self.add(wanted, form)

    def add(self, wanted: Wanted, form: Sequence[Piece]) -> FlatTable:
        """Keep the local form of a checked table. Return the open table."""
        if self._disk is not None and self._disk.add_flat(wanted.identifier.hex(), form):
            table = self.get(wanted)
            if table is not None:
                return table
        built = wanted.opened(b"".join(form), wanted.rebuild)
        return self._hold(wanted.identifier, built)

    def mend(self, identifier: bytes, form: Sequence[Piece]) -> bytes:
        """Keep the local form that replaces a damaged one, and return its bytes."""
        with self._lock:
            self._release(identifier)
        if self._disk is not None:
            name = identifier.hex()
            self._disk.drop_damaged(name)
            self._disk.add_flat(name, form)
        return b"".join(form)

    def adopt(self, table: FinishedTable, data: bytes, *, stored: Path | None) -> None:
        """Keep a table that this process has written.

        Args:
            stored: The object store's file of the table, if it has files. The cache links it.
        """
        name, record_ids = table.identifier.hex(), table.record_ids
        if self._disk is None:
            self._hold(table.identifier, TablePair(data, record_ids))
        elif table.form:
            self._disk.add_flat(name, table.form)
        else:
            file = table.file.path if table.file.on_disk else stored
            self._disk.add(name, data, record_ids, file)

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

    def _hold(self, identifier: bytes, table: _Table) -> _Table:
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


def _form_again(table: FlatTable, identifier: bytes, *, numbered: bool) -> list[Piece]:
    """Return a table's form, built from its rows. They are checked against the id or the digest."""
    form, ids = Form(), bytearray()
    for run in table.runs():
        keys, values = run.columns()
        form.add(keys, values)
        if numbered:
            ids += b"".join(map(record_id, keys, values))
    if not form.count:
        raise CorruptionError(f"cached {table.name} holds no record")
    if not (range_id((bytes(ids),)) == identifier if ids else form.digest()() == table.digest):
        raise CorruptionError(f"cached {table.name} holds other records")
    digest = bytes(32) if numbered else table.digest
    return form.finish(table.kind, identifier, bytes(ids), digest=digest)


def _not_again(_numbered: bool) -> bytes:
    raise DamagedFileError("it is built from its records")
