"""Tables at hand: opened ones in memory, and files on disk where a folder is given."""

import tempfile
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Final

from graveler.committed.disk_cache import DiskCache
from graveler.committed.table import Table
from graveler.model import RangeInfo

_MEMORY_BYTES: Final = 128 << 20


class RangeCache:
    """Least recently used tables go first, in memory and on disk alike.

    Tables are immutable and their names stand for every byte of their records, so nothing
    here ever becomes out of date.
    Only checked tables may be added: see `graveler.committed.table`.

    Args:
        folder: Where files are kept, shared with other processes; None: in memory only.
        max_bytes: Bound on disk. Memory takes that much too, 128 MiB at most if there
            is a folder.
    """

    def __init__(self, folder: Path | None, max_bytes: int) -> None:
        self._disk = None if folder is None else DiskCache(folder, max_bytes)
        self._memory_max = max_bytes if folder is None else min(max_bytes, _MEMORY_BYTES)
        self._memory_bytes = 0
        self._opened: OrderedDict[str, Table] = OrderedDict()
        self._lock = Lock()

    @property
    def damaged(self) -> int:
        """Files that were found damaged on disk, and dropped."""
        return 0 if self._disk is None else self._disk.damaged

    @property
    def memory_bytes(self) -> int:
        """Bytes of the tables held open."""
        return self._memory_bytes

    def get(self, name: str) -> Table | None:
        """Return the table, None where it has to be fetched."""
        with self._lock:
            table = self._opened.get(name)
            if table is not None:
                self._opened.move_to_end(name)
                return table
        loaded = None if self._disk is None else self._disk.load(name)
        if loaded is None:
            return None
        return self._hold(name, Table(*loaded, name=name))

    def add(self, name: str, data: bytes, record_ids: bytes) -> Table:
        """Keep a table that was fetched and checked; return it opened."""
        if self._disk is not None:
            self._disk.add(name, data, record_ids)
        return self._hold(name, Table(data, record_ids, name=name))

    def adopt(
        self, name: str, data: bytes, path: Path | None, record_ids: bytes, *, stored: Path | None
    ) -> None:
        """Keep a table that was written here.

        Args:
            name: Its name.
            data: The table.
            path: Its own file, where it has one: moved in.
            record_ids: Of its records.
            stored: The object store's file of it, where that is one: given another name.
        """
        if self._disk is not None:
            with self._lock:
                self._release(name)
            if path is not None:
                self._disk.adopt(name, data, path, record_ids)
            elif stored is not None:
                self._disk.link(name, data, stored, record_ids)
            else:
                self._disk.add(name, data, record_ids)
        else:
            self._hold(name, Table(data, record_ids, name=name))

    def scratch(self) -> Path:
        """Return a new folder for a writer's files, on the cache's own disk where possible.

        The caller removes it. No TemporaryDirectory: a forked child that inherits one removes
        it from under its parent as it ends.
        """
        place = None if self._disk is None else self._disk.scratch()
        return Path(tempfile.mkdtemp(prefix="graveler-", dir=place))

    def _hold(self, name: str, table: Table) -> Table:
        with self._lock:
            self._release(name)
            self._opened[name] = table
            self._memory_bytes += table.memory_bytes
            while self._memory_bytes > self._memory_max:
                self._release(next(iter(self._opened)))
        return table

    def _release(self, name: str) -> None:
        table = self._opened.pop(name, None)
        if table is not None:
            self._memory_bytes -= table.memory_bytes


_MAX_RANGES: Final = 200_000


class MetarangeMemory:
    """Decoded metaranges by id, bounded by the ranges they list together."""

    def __init__(self, max_ranges: int = _MAX_RANGES) -> None:
        self._max = max_ranges
        self._count = 0
        self._kept: OrderedDict[str, tuple[RangeInfo, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, metarange: str) -> tuple[RangeInfo, ...] | None:
        """Return the ranges of a metarange, None where it has to be read."""
        with self._lock:
            infos = self._kept.get(metarange)
            if infos is not None:
                self._kept.move_to_end(metarange)
            return infos

    def put(self, metarange: str, infos: tuple[RangeInfo, ...]) -> None:
        """Keep the ranges of a metarange, forgetting those used longest ago."""
        with self._lock:
            self._count += len(infos) - len(self._kept.pop(metarange, ()))
            self._kept[metarange] = infos
            while self._count > self._max:
                self._count -= len(self._kept.popitem(last=False)[1])
