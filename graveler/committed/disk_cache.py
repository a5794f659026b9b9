"""Table files on local disk, bounded in bytes, shared by any number of processes.

Per table two files: ``<id>.sst``, the table itself, and ``<id>.rid``::

    bytes   record ids, 32 each, in key order
    bytes   xxh3-128 of the table file, 16
    bytes   xxh3-128 of everything before, 16

Only tables that were checked against their id are added, so the two checksums are enough
to detect later damage on each load; a damaged table is
removed and reported as absent. Both files are renamed into place, the ``.rid`` first:
readers need no lock, a killed process leaves at most a file under ``tmp``, and removing
a file that a reader has just opened does not disturb that reader.

The cache may fail in every way (disk full, folder read-only, gone, damaged) without
failing its caller: each such failure reads as "not there" or "not kept".
"""

import logging
import os
import shutil
import tempfile
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import uuid4

from xxhash import xxh3_128_digest

from graveler.privacy import make_folder
from graveler.process import watch

_SUM_BYTES: Final = 16
_TABLE: Final = ".sst"
_IDS: Final = ".rid"
_STALE_SECONDS: Final = 24 * 3600
_log = logging.getLogger(__name__)


class DiskCache:
    """The tables of one folder.

    Each process counts what it adds. It reads the whole folder when its own count reaches the
    bound, and at least once per sixteenth of the bound: n processes
    together exceed it by at most n sixteenths.

    Args:
        folder: Made when missing.
        max_bytes: Bound of all files together.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._scratch = folder / "tmp"
        self._max = max_bytes
        self._accounts = Lock()
        self._found: int | None = None
        self._added = 0
        self._coming = 0  # bytes that have their room, and not yet their names
        self.damaged = 0
        watch(self)

    def after_fork_in_child(self) -> None:
        """Let go of what a thread of the parent may hold: it counts files while it does."""
        self._accounts = Lock()
        self._coming = 0

    def load(self, name: str) -> tuple[bytes, bytes] | None:
        """Return (table file, record ids), or None where they are absent or damaged."""
        table = self._folder / (name + _TABLE)
        try:
            ids = (self._folder / (name + _IDS)).read_bytes()
            data = table.read_bytes()
        except OSError:
            return None
        sums = len(ids) - 2 * _SUM_BYTES
        if (
            sums < 0
            or xxh3_128_digest(ids[:-_SUM_BYTES]) != ids[-_SUM_BYTES:]
            or xxh3_128_digest(data) != ids[sums:-_SUM_BYTES]
        ):
            self.damaged += 1
            _log.warning("cached table %s is damaged: it is read again from the store", table)
            self._remove(name)
            return None
        try:
            # the order of eviction; the table itself may be a name of the object store's file
            os.utime(self._folder / (name + _IDS))
        except OSError:
            _log.debug("cannot mark %s as used", table, exc_info=True)
        return data, ids[:sums]

    def add(self, name: str, data: bytes, record_ids: bytes) -> bool:
        """Keep a checked table; return whether it was kept."""
        try:
            make_folder(self._scratch)
            return self._place(name, data, record_ids, self._write(data))
        except OSError as error:
            return self._not_kept(name, error)

    def link(self, name: str, data: bytes, path: Path, record_ids: bytes) -> bool:
        """Keep a checked table as another name of `path`, which is never changed in place.

        If that is impossible, as on another disk, a copy is kept.
        """
        try:
            make_folder(self._scratch)
            table = self._scratch / uuid4().hex
            table.hardlink_to(path)
        except OSError:
            return self.add(name, data, record_ids)
        try:
            return self._place(name, data, record_ids, table)
        except OSError as error:
            return self._not_kept(name, error)

    def adopt(self, name: str, data: bytes, path: Path, record_ids: bytes) -> bool:
        """Keep a table that was written here by moving its file in; return whether it was kept."""
        try:
            return self._place(name, data, record_ids, path)
        except OSError as error:
            return self._not_kept(name, error)

    def scratch(self) -> Path | None:
        """Return the folder for files that will be adopted, None where none can be made."""
        try:
            make_folder(self._scratch)
            with tempfile.TemporaryFile(dir=self._scratch):
                return self._scratch
        except OSError:
            return None

    def _place(self, name: str, data: bytes, record_ids: bytes, table: Path) -> bool:
        ids = record_ids + xxh3_128_digest(data)
        ids += xxh3_128_digest(ids)
        size = len(data) + len(ids)
        sidecar = None
        try:
            if size > self._max:
                return False
            with self._accounts:
                self._make_room(size)
                self._added += size
                self._coming += size
            try:
                sidecar = self._write(ids)
                sidecar.replace(self._folder / (name + _IDS))
                table.replace(self._folder / (name + _TABLE))
            finally:
                with self._accounts:
                    self._coming -= size
        finally:
            table.unlink(missing_ok=True)
            if sidecar is not None:
                sidecar.unlink(missing_ok=True)
        return True

    def _write(self, data: bytes) -> Path:
        handle, name = tempfile.mkstemp(dir=self._scratch)
        path = Path(name)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(data)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    def _make_room(self, size: int) -> None:
        known = self._found
        if (
            known is not None
            and known + self._added + size <= self._max
            and self._added <= self._max // 16
        ):
            return
        self._remove_stale()
        entries = self._entries()
        total = self._coming + sum(length for _, length in entries.values())
        if total + size > self._max:
            # a tenth more than needed, so that the next tables fit without another check
            enough = self._max - self._max // 10 - size
            for name in sorted(entries, key=lambda name: entries[name]):
                if total <= max(enough, 0):
                    break
                self._remove(name)
                total -= entries[name][1]
        self._found, self._added = total, 0

    def _entries(self) -> dict[str, tuple[float, int]]:
        """Return time of last use and bytes of each table in the folder."""
        entries: dict[str, tuple[float, int]] = {}
        for item in os.scandir(self._folder):
            name, dot, ending = item.name.rpartition(".")
            if dot + ending not in {_TABLE, _IDS}:
                continue
            try:
                stat = item.stat()
            except FileNotFoundError:  # evicted by another process
                continue
            used, total = entries.get(name, (0.0, 0))
            if ending == _IDS[1:]:
                used = stat.st_mtime
            entries[name] = used, total + stat.st_size
        return entries

    def _remove_stale(self) -> None:
        """Remove what killed processes left in ``tmp``."""
        os.utime(self._scratch)  # the time now, by the clock that stamps the files
        now = self._scratch.stat().st_mtime
        for item in os.scandir(self._scratch):
            try:
                if now - item.stat().st_mtime < _STALE_SECONDS:
                    continue
            except FileNotFoundError:
                continue
            if item.is_dir(follow_symlinks=False):
                shutil.rmtree(item.path, ignore_errors=True)
            else:
                Path(item.path).unlink(missing_ok=True)

    def _remove(self, name: str) -> None:
        for ending in (_TABLE, _IDS):
            try:
                (self._folder / (name + ending)).unlink(missing_ok=True)
            except OSError:
                _log.debug("cannot remove %s from the cache", name, exc_info=True)

    def _not_kept(self, name: str, error: OSError) -> bool:
        _log.info("table %s is not kept in the cache %s: %s", name, self._folder, error)
        return False
