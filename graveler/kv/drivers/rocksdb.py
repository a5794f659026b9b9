"""RocksDB: a folder for a single process with many writes. Stores of a process share one handle.

rocksdict writes a file of its own into every folder that it opens, so a folder without write
permission is read through links to its files.
"""

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeVar

from rocksdict import (
    AccessType,
    DbClosedError,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from graveler.base.forks import NO_DESCRIPTOR, abandon, watch
from graveler.base.privacy import follow_group, is_shared, make_folder, may_write
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    GravelerError,
    InvalidInputError,
    KVOutdatedError,
    LakeLockedError,
    OutcomeUnknownError,
    ReadOnlyError,
    StateError,
    StorageFullError,
)
from graveler.kv.driver import Driver, FileIdentity, holds
from graveler.kv.store import Predicate
from graveler.kv.turns import Turns

# `KVStore` documents the methods.
# ruff: noqa: D102


_log = logging.getLogger(__name__)
_ROOM = 1 << 20
_T = TypeVar("_T")


def _options() -> Options:
    # without raw mode, rocksdict puts a type byte before each key and value
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_keep_log_file_num(5)
    # A torn last record was never acknowledged. Earlier damage is an error. The default would
    # silently omit all records after the damage.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    return options


def _prefix(partition: str) -> bytes:
    # the length comes first, so that no name with its key reads like another name and key
    name = partition.encode()
    return len(name).to_bytes(2, "big") + name


def _end(prefix: bytes) -> bytes:
    # UTF-8 has no byte 0xff, so the last one can always be raised.
    return prefix[:-1] + bytes([prefix[-1] + 1])


class _Handle:
    """An open folder, and the lock that makes a compare-and-set atomic."""

    def __init__(self, folder: Path) -> None:
        self.lock = RLock()
        self.turns = Turns()
        self.users = 0
        self.failed = False
        self.inherited_from: int | None = None
        self._reader: LinkedReader | None = None
        with _translated(folder):
            if folder.exists() and not may_write(folder):
                self._reader = LinkedReader(folder, _options())
                self.db = self._reader.db
            else:
                with suppress(OSError):  # RocksDB reports why the folder cannot be created
                    make_folder(folder)  # private, because every user may read RocksDB's files
                self.db = Rdict(str(folder), _options())
                abandon(self.db)  # only close() closes it, see `_Handles.release`
                _follow_group(folder)
        identity = folder / "IDENTITY"
        self._kept: int | None = None
        with suppress(OSError):  # RocksDB need not have one to read
            self._kept = os.open(identity, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = FileIdentity(folder, folder / "LOCK", identity)
        self.durably = WriteOptions()
        self.durably.sync = True

    @contextmanager
    def writing(self, folder: Path) -> Iterator[Rdict]:
        with self.lock:
            self.mend(folder)
            try:
                yield self.db
            except DbClosedError:
                raise
            except Exception as error:
                self.failed = self._reader is None
                if self.failed and not _is_full(str(error)):
                    _close(folder, self.db)  # so that a read finds what the log has
                raise

    def mend(self, folder: Path) -> None:
        """Open the folder again after a failed write: RocksDB refuses every later write."""
        if not self.failed:
            return
        try:
            # if there is still no room, the open folder can be read
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, _ROOM)
        except OSError as error:
            raise _translate(folder, str(error), conditional=False) from error
        with suppress(DbClosedError):
            _close(folder, self.db)
        self.db = Rdict(str(folder), _options())
        self.failed = False

    def close(self, folder: Path) -> None:
        with self.lock:
            _close(folder, self.db)
        if self._kept is not None:
            os.close(self._kept)
        if self._reader is not None:
            self._reader.remove()
        else:
            _follow_group(folder)


def _follow_group(folder: Path) -> None:
    """Let the group that shares the folder read RocksDB's files. Their rights come from the umask."""
    with suppress(OSError):
        for file in folder.iterdir() if is_shared(folder) else ():
            with suppress(PermissionError):  # another user owns it and has shared it
                follow_group(file)


class _Handles:
    """The folders that this process has open."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.by_folder: dict[Path, _Handle] = {}

    def acquire(self, folder: Path) -> _Handle:
        with self.lock:
            handle = self.by_folder.get(folder)
            if handle is None:
                handle = self.by_folder[folder] = _Handle(folder)
            handle.identity.check()
            handle.users += 1
            return handle

    def release(self, folder: Path, handle: _Handle) -> None:
        with self.lock:
            handle.users -= 1
            unused = handle.users == 0 and handle.inherited_from is None
            if unused:
                with suppress(KVOutdatedError):  # to close it would write into another folder
                    handle.identity.check()
                    del self.by_folder[folder]
                    handle.close(folder)

    def after_fork_in_child(self) -> None:
        for handle in self.by_folder.values():
            handle.inherited_from = os.getppid()
            abandon(handle)
        self.lock = Lock()
        self.by_folder = {}


_handles = _Handles()
watch(_handles)


@contextmanager
def _translated(folder: Path, *, conditional: bool = False) -> Iterator[None]:
    try:
        yield
    except DbClosedError as error:
        raise _closed(folder) from error
    except Exception as error:
        if type(error) is not Exception:  # rocksdict raises only bare Exceptions
            raise
        raise _translate(folder, str(error), conditional=conditional) from error


def _translate(folder: Path, text: str, *, conditional: bool) -> GravelerError:
    message = f"{folder}: {text}"
    if "lock hold by current process" in text or "While lock file" in text:
        return LakeLockedError(
            f"{message}: RocksDB lets one process into a folder, and another one has this one "
            "open. Close it there, or use SQLite or PostgreSQL for several processes"
        )
    if _is_full(text):
        return StorageFullError(f"{message}: free space on its disk, and repeat")
    if text.startswith("Corruption"):
        return CorruptionError(f"{message}: keep the folder, restore it from a backup")
    if "read only mode" in text:
        return ReadOnlyError(
            f"{folder} may not be written to by user id {os.geteuid()}, or its disk is read-only: "
            "write where it may"
        )
    if any(reason in text for reason in ("Permission denied", "Read-only", "File exists")):
        return InvalidInputError(f"{message}: give a folder that this user may write to")
    # The effect of a failed write to the log is unknown.
    kind = OutcomeUnknownError if conditional else BackendUnavailableError
    advice = NO_DESCRIPTOR if "Too many open" in text else "check the disk and the system log"
    return kind(f"{message}: {advice}")


def _is_full(text: str) -> bool:
    """Return whether no byte of a write landed, because there is no room for it."""
    reasons = ("No space left", "File too large", "Disk quota")
    return "sync" not in text and any(reason in text for reason in reasons)


def _close(folder: Path, db: Rdict) -> None:
    try:
        db.close()
    except Exception as error:
        if type(error) is not Exception:
            raise
        # Acknowledged writes are in the log, so the caller need not act. An error that led here
        # is more important than this one.
        _log.warning("closing %s: %s", folder, error)


def _closed(folder: Path) -> StateError:
    return StateError(f"the store in {folder} is closed: open it again")


class RocksDBKVStore(Driver):
    """A key-value store in one RocksDB folder, for one process.

    Args:
        folder: The folder, created if missing. A folder without write permission is read in its
            current state, and writes raise ReadOnlyError.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).resolve()
        self._closed = False
        self._handle = _handles.acquire(self._folder)
        self._turns = self._handle.turns

    def _get(self, partition: str, key: bytes) -> bytes | None:
        return self._read(lambda db: db.get(_prefix(partition) + key))

    def _get_many(self, keys: Sequence[tuple[str, bytes]]) -> Mapping[tuple[str, bytes], bytes]:
        with self._open() as handle, handle.lock:  # every writer holds this lock
            values = [(name, self._get(*name)) for name in keys]
            return {name: value for name, value in values if value is not None}

    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        with self._writing() as db:
            db.put(_prefix(partition) + key, value, self._handle.durably)

    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        prefix = _prefix(partition)
        batch = WriteBatch(raw_mode=True)
        for key, value in chunk:
            batch.put(prefix + key, value)
        self._write_batch(batch)

    def _delete_chunk(self, partition: str, chunk: list[bytes]) -> None:
        prefix = _prefix(partition)
        batch = WriteBatch(raw_mode=True)
        for key in chunk:
            batch.delete(prefix + key)
        self._write_batch(batch)

    def _write_batch(self, batch: WriteBatch) -> None:
        with self._writing() as db:
            db.write(batch, self._handle.durably)

    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        full_key = _prefix(partition) + key
        with self._writing(conditional=True) as db:
            met = holds(predicate, db.get(full_key))
            if met:
                db.put(full_key, value, self._handle.durably)
        return met

    def _delete(self, partition: str, key: bytes) -> None:
        with self._writing() as db:
            db.delete(_prefix(partition) + key, self._handle.durably)

    def _delete_if(self, partition: str, key: bytes, value: bytes) -> bool:
        full_key = _prefix(partition) + key
        with self._writing(conditional=True) as db:
            met: bool = db.get(full_key) == value
            if met:
                db.delete(full_key, self._handle.durably)
        return met

    def _drop(self, partition: str) -> None:
        prefix = _prefix(partition)
        with self._writing() as db:
            db.delete_range(prefix, _end(prefix), self._handle.durably)

    def _page(self, partition: str, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        prefix = _prefix(partition)
        options = ReadOptions()
        options.set_iterate_upper_bound(_end(prefix))

        # an iterator that is kept over a yield would pin old files, and the lock after close()
        def read(db: Rdict) -> list[tuple[bytes, bytes]]:
            items: Iterator[tuple[Any, bytes]] = db.items(from_key=prefix + start, read_opt=options)
            return [(key[len(prefix) :], value) for key, value in islice(items, limit)]

        return self._read(read)

    def partitions(self, prefix: str) -> Iterator[str]:
        start = b""

        def first(db: Rdict) -> bytes | None:
            keys: Iterator[Any] = db.keys(from_key=start)
            return next(keys, None)

        while key := self._read(first):
            name = key[2 : 2 + int.from_bytes(key[:2], "big")]
            if name.startswith(prefix.encode()):
                yield name.decode()
            start = _end(key[:2] + name)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            _handles.release(self._folder, self._handle)

    def _check_same(self) -> None:
        self._handle.identity.check()

    def _check_open(self) -> None:
        with self._open():
            pass

    @contextmanager
    def _open(self, *, conditional: bool = False) -> Iterator[_Handle]:
        if self._closed:
            raise _closed(self._folder)
        if self._handle.inherited_from is not None:
            raise LakeLockedError(
                f"{self._folder} was opened by process {self._handle.inherited_from}, of which "
                f"this one, {os.getpid()}, is a fork: RocksDB lets one process into a folder. "
                "Use SQLite or PostgreSQL for several processes"
            )
        with _translated(self._folder, conditional=conditional):
            yield self._handle

    @contextmanager
    def _writing(self, *, conditional: bool = False) -> Iterator[Rdict]:
        with self._open(conditional=conditional) as handle, handle.writing(self._folder) as db:
            yield db

    def _read(self, work: Callable[[Rdict], _T]) -> _T:
        with self._open() as handle:
            try:
                return work(handle.db)
            except DbClosedError:  # a writer opens the folder again
                with handle.lock:
                    handle.mend(self._folder)
                    return work(handle.db)


_LEFT_OUT = ("LOCK", "LOG", "rocksdict-config.json")


class LinkedReader:
    """An open folder that is read in the state at the time of opening."""

    def __init__(self, folder: Path, options: Options) -> None:
        _check_unlocked(folder)
        self._links = Path(tempfile.mkdtemp(prefix="graveler-kv-"))
        self._process = os.getpid()
        try:
            for file in folder.iterdir():
                if file.name not in _LEFT_OUT and not file.name.startswith("LOG.old"):
                    (self._links / file.name).symlink_to(file)
            self.db = Rdict(str(self._links), options, access_type=AccessType.read_only())
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the links after `db` is closed."""
        if self._process == os.getpid():  # in a forked child they belong to the parent
            shutil.rmtree(self._links, ignore_errors=True)


def _check_unlocked(folder: Path) -> None:
    try:
        descriptor = os.open(folder / "LOCK", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # no lock file, as in a folder restored from a backup: no process has it open
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        raise LakeLockedError(
            f"{folder}: another process has it open, and RocksDB lets one process into a folder: "
            "close it there, or use SQLite or PostgreSQL for several processes"
        ) from error
    finally:
        os.close(descriptor)
