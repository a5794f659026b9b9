"""Table files on local disk, bounded in bytes, shared by any number of processes.

A table is cached in its local form (``<id>.flat``, which is mapped), or as its writer made it
(``<id>.sst``, and ``<id>.rid`` with its record ids, the xxh3-128 of the table and that of all
before). Only tables that were checked against their id are added, so checksums detect later damage;
a file of another user is checked like one of the object store, and read, because its owner could
shorten a mapped one. Files are renamed into place, the ``.rid`` first, and never shortened. A
failure of the cache is never an error for the caller.
"""

import ctypes
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import ENOMEM
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from functools import cache
from mmap import ACCESS_READ, MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PROT_READ, mmap
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from xxhash import xxh3_128, xxh3_128_digest

from graveler.base.clock import SystemClock
from graveler.base.forks import watch
from graveler.base.privacy import follow_group, make_folder, open_file
from graveler.base.telemetry import cache as counts
from graveler.committed.cache.form import Piece

_SUM_BYTES = 16
_TABLE = ".sst"
_IDS = ".rid"
_FLAT = ".flat"
_PIECES = 1_000  # pieces of one call of writev; Linux accepts 1,024
_ENDINGS = (_TABLE, _IDS, _FLAT)
_LOCKS = "locks"
PATIENCE_S = 30.0
"""How long a process waits for another one that fetches the same table."""
_FIRST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.02
_CLOCK = SystemClock()
_WITHOUT_FILE = MAP_PRIVATE | MAP_ANONYMOUS
_IN_PLACE = MAP_SHARED | 0x10
"""Shared and ``MAP_FIXED``, which has this number on Linux and on macOS."""
_STALE_SECONDS = 24 * 3600
_log = logging.getLogger(__name__)


class FlatFile(NamedTuple):
    """The local form of a table, as found in the folder.

    Attributes:
        buffer: The whole file. A file of another user, or one that cannot be mapped, is read.
        full: Whether the process can map no more files.
    """

    buffer: bytes | mmap
    own: bool
    full: bool = False


class TablePair(NamedTuple):
    """A table as a writer left it."""

    data: bytes
    record_ids: bytes
    own: bool = True

    @property
    def memory_bytes(self) -> int:
        """The memory that it takes, in bytes."""
        return len(self.data) + len(self.record_ids)


class DiskCache:
    """The tables of one folder.

    Each process counts the bytes that it adds. It reads the whole folder when its own count reaches
    the bound, and at least once per sixteenth of the bound. So n processes together exceed the
    bound by at most n sixteenths.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._scratch = folder / "tmp"
        self._max = max_bytes
        self._accounts = Lock()
        self._found: int | None = None
        self._added = 0
        self._coming = 0  # bytes that are counted, of files that are not renamed yet
        self._locks: set[int] = set()  # descriptors of lock files
        self.damaged = 0
        watch(self)

    def after_fork_in_child(self) -> None:
        """Release the locks and the count that threads of the parent held at the fork."""
        self._accounts = Lock()
        self._coming = 0
        for descriptor in self._locks:  # a child's copy would keep the lock of a killed parent
            os.close(descriptor)
        self._locks.clear()

    def load(self, name: str) -> TablePair | None:
        """Return the table that a writer left, or None if it is absent or damaged."""
        table = self._folder / (name + _TABLE)
        try:
            with (self._folder / (name + _IDS)).open("rb") as file:
                own = _is_own(os.fstat(file.fileno()))
                ids = file.read()
            data = table.read_bytes()
        except OSError:
            return None
        sums = len(ids) - 2 * _SUM_BYTES
        if (
            sums < 0
            or xxh3_128_digest(ids[:-_SUM_BYTES]) != ids[-_SUM_BYTES:]
            or xxh3_128_digest(data) != ids[sums:-_SUM_BYTES]
        ):
            self.drop_damaged(name, table)
            return None
        return TablePair(data, ids[:sums], own)

    def load_flat(self, name: str) -> FlatFile | None:
        """Return the local form of a table, or None if it is absent."""
        path = f"{self._folder}/{name}{_FLAT}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            own, full = _is_own(status), False
            if own:
                with suppress(OSError):
                    os.utime(descriptor)  # eviction is in the order of use
                try:
                    return FlatFile(mapped(descriptor, status.st_size), own)
                except OSError as error:
                    full = error.errno == ENOMEM
            with open(descriptor, "rb", closefd=False) as file:
                return FlatFile(file.read(), own, full)
        except (OSError, ValueError):  # ValueError: an empty file
            return None
        finally:
            os.close(descriptor)

    def has(self, name: str) -> bool:
        """Return whether the folder has the table, in any form."""
        return any(os.path.exists(f"{self._folder}/{name}{end}") for end in (_FLAT, _TABLE))  # noqa: PTH110 - on every scan

    def drop_damaged(self, name: str, path: Path | None = None) -> None:
        """Remove a table that has a damaged file, and count it."""
        self.damaged += 1
        shown = path or self._folder / (name + _FLAT)
        _log.warning("cached table %s is damaged: it is read again from the store", shown)
        self._remove(name)

    @contextmanager
    def single(self, name: str) -> Iterator[None]:
        """Let one caller of this host at a time build the local form of a table.

        If the folder supports no locks, or the holder of the lock is suspended, several callers
        build the same file.
        """
        descriptor = None
        try:
            folder = self._folder / _LOCKS
            make_folder(folder)
            # few lock files for any number of tables. The system frees the lock of a dead process.
            descriptor = open_file(folder / name[:2])
            self._locks.add(descriptor)
            _lock(descriptor)
        except OSError as error:
            _log.debug("no lock in the cache %s: %s", self._folder, error)
        try:
            yield
        finally:
            if descriptor in self._locks:  # not in a child that was forked meanwhile
                self._locks.discard(descriptor)
                with suppress(OSError):  # closing does not suffice: a child may have it open
                    flock(descriptor, LOCK_UN)
                os.close(descriptor)

    def add_flat(self, name: str, form: Sequence[Piece]) -> bool:
        """Keep the local form of a table in place of any other file. Return whether it is kept."""
        try:
            make_folder(self._scratch)
            if not self._place(name, {_FLAT: self._write(*form)}, sum(map(len, form))):
                return False
        except OSError as error:
            return self._not_kept(name, error)
        self._remove(name, (_TABLE, _IDS))
        return True

    def add(self, name: str, data: bytes, record_ids: bytes, file: Path | None = None) -> bool:
        """Keep a checked table. Return whether it is kept.

        Args:
            file: A file with its bytes that is never changed in place. If possible, the table is
                kept as a hard link to it, else as a copy.
        """
        try:
            make_folder(self._scratch)
            table = self._linked(file) or self._write(data)
            data_sum = xxh3_128_digest(data)
            whole_sum = xxh3_128(record_ids)  # piece by piece, without a copy
            whole_sum.update(data_sum)
            try:
                ids = self._write(record_ids, data_sum, whole_sum.digest())
            except OSError:
                table.unlink(missing_ok=True)
                raise
            size = len(data) + len(record_ids) + 2 * _SUM_BYTES
            return self._place(name, {_IDS: ids, _TABLE: table}, size)
        except OSError as error:
            return self._not_kept(name, error)

    def _linked(self, file: Path | None) -> Path | None:
        table = self._scratch / os.urandom(16).hex()
        with suppress(OSError):
            if file is not None:
                table.hardlink_to(file)
                return table
        return None

    def scratch(self) -> Path | None:
        """Return the folder for files that will be kept, or None if it cannot be created."""
        try:
            make_folder(self._scratch)
            with tempfile.TemporaryFile(dir=self._scratch):
                return self._scratch
        except OSError:
            return None

    def _place(self, name: str, files: Mapping[str, Path], size: int) -> bool:
        """Rename finished files into place, in the given order. Remove the rest after an error."""
        try:
            if size > self._max:
                return False
            with self._accounts:
                self._make_room(size)
                self._added += size
                self._coming += size
            try:
                for ending, path in files.items():
                    follow_group(path)
                    path.replace(self._folder / (name + ending))
            finally:
                with self._accounts:
                    self._coming -= size
        finally:
            for path in files.values():
                path.unlink(missing_ok=True)
        return True

    def _write(self, *pieces: Piece) -> Path:
        handle, name = tempfile.mkstemp(dir=self._scratch)
        path = Path(name)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                for at in range(0, len(pieces), _PIECES):
                    some = pieces[at : at + _PIECES]
                    # one call, so that the page cache holds the file in few parts, which map faster
                    done = os.writev(handle, some)
                    if done < sum(map(len, some)):  # a full disk: the next write reports it
                        file.write(b"".join(some)[done:])
                        file.flush()
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
            # free a tenth more than needed, so that the next tables fit without another check
            enough = self._max - self._max // 10 - size
            for name in sorted(entries, key=lambda name: entries[name]):
                if total <= max(enough, 0):
                    break
                self._remove(name)
                counts.evicted_from_disk += 1
                total -= entries[name][1]
        self._found, self._added = total, 0

    def _entries(self) -> dict[str, tuple[float, int]]:
        """Return the time of the last use and the size of each table in the folder."""
        entries: dict[str, tuple[float, int]] = {}
        for item in os.scandir(self._folder):
            name, dot, ending = item.name.rpartition(".")
            if dot + ending not in _ENDINGS:
                continue
            try:
                stat = item.stat()
            except FileNotFoundError:  # evicted by another process
                continue
            used, total = entries.get(name, (0.0, 0))
            if dot + ending != _TABLE:  # it may be a link to the object store's file
                used = max(used, stat.st_mtime)
            entries[name] = used, total + stat.st_size
        return entries

    def _remove_stale(self) -> None:
        """Remove the files that killed processes left in ``tmp``."""
        os.utime(self._scratch)  # gives the time of the clock that stamps the files
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

    def _remove(self, name: str, endings: tuple[str, ...] = _ENDINGS) -> None:
        for ending in endings:
            try:
                (self._folder / (name + ending)).unlink(missing_ok=True)
            except OSError:
                _log.debug("cannot remove %s from the cache", name, exc_info=True)

    def _not_kept(self, name: str, error: OSError) -> bool:
        _log.info("table %s is not kept in the cache %s: %s", name, self._folder, error)
        return False


def _lock(descriptor: int) -> None:
    """Lock a file, or raise an OSError after a while."""
    end, wait = monotonic() + PATIENCE_S, _FIRST_WAIT_S
    while True:
        try:
            return flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            if monotonic() >= end:
                raise
        _CLOCK.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT_S)


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid in {os.geteuid(), 0}


def mapped(descriptor: int, size: int) -> mmap:
    """Return the whole of a file, to read. It keeps no descriptor of the file.

    Before Python 3.13 an `mmap` of a file keeps a copy of its descriptor. A process that reads a lake
    of some thousand ranges would use up its descriptors. Code that calls ``select``, such as the
    callback server of PySpark, even fails as soon as 1,024 are open.
    """
    if sys.version_info >= (3, 13):
        return mmap(descriptor, 0, access=ACCESS_READ, trackfd=False)
    if not size:
        raise ValueError("cannot map an empty file")
    # memory without a file has no descriptor; the file then takes its place in the address space
    found = mmap(-1, size, _WITHOUT_FILE, PROT_READ)
    system = _system()
    buffer = _Buffer()
    place = ctypes.addressof(buffer)
    system.get_buffer(found, place, 0)  # `from_buffer` of ctypes refuses memory that is read-only
    start = buffer.buf
    system.release_buffer(place)
    if system.map(start, size, PROT_READ, _IN_PLACE, descriptor, 0) != start:
        raise OSError(ctypes.get_errno(), "the file cannot be mapped")
    return found


class _Buffer(ctypes.Structure):
    """Python's ``Py_buffer``, of which only the address is read."""

    _fields_ = (("buf", ctypes.c_void_p), ("rest", ctypes.c_void_p * 10))


class _System(NamedTuple):
    """Functions of Python and of the system."""

    get_buffer: Any
    release_buffer: Any
    map: Any


@cache
def _system() -> _System:
    python, number = ctypes.PyDLL(None), ctypes.c_int
    get_buffer, release_buffer = python.PyObject_GetBuffer, python.PyBuffer_Release
    get_buffer.argtypes = (ctypes.py_object, ctypes.c_void_p, number)
    release_buffer.argtypes, release_buffer.restype = (ctypes.c_void_p,), None
    found = ctypes.CDLL(None, use_errno=True).mmap
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *3 * (number,), ctypes.c_int64)
    found.restype = ctypes.c_void_p
    return _System(get_buffer, release_buffer, found)
