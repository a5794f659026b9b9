"""SQLite through the standard library: one file for many processes of one host.

A write-ahead log with ``synchronous=FULL`` lets an acknowledged write survive a power cut, and
readers never wait for a writer. Writers take turns. A writer that waits too long raises
BackendUnavailableError.
"""

# `KVStore` documents the methods.
# ruff: noqa: D102

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.base.forks import NO_DESCRIPTOR, abandon, watch
from graveler.base.privacy import create_file, make_folder, may_write
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    GravelerError,
    InternalError,
    InvalidInputError,
    OutcomeUnknownError,
    ReadOnlyError,
    StorageFullError,
)
from graveler.kv.driver import Driver, FileIdentity, partition_names
from graveler.kv.drivers.sqlite_connections import (
    Connections,
    ReadOnlyConnections,
    WritingConnections,
)
from graveler.kv.store import ABSENT, PRESENT, Predicate
from graveler.kv.turns import FileTurns

_T = TypeVar("_T")

_ATTEMPTS = 6
_LONGEST_PAUSE = 0.05
_DROP_AT_ONCE = 10_000

_CREATE = """
CREATE TABLE IF NOT EXISTS kv (
    partition TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (partition, key)
) STRICT, WITHOUT ROWID"""
_ANY = "SELECT 1 FROM kv LIMIT 1"
_GET = "SELECT value FROM kv WHERE partition = ? AND key = ?"
_GET_MANY = "SELECT partition, key, value FROM kv WHERE "
_ONE_OF = "(partition = ? AND key = ?)"  # for a list of pairs, SQLite scans the table
_SET = (
    "INSERT INTO kv VALUES (?, ?, ?)"
    " ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value"
)
_SET_ABSENT = "INSERT INTO kv VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_SET_PRESENT = "UPDATE kv SET value = ? WHERE partition = ? AND key = ?"
_SET_EQUAL = "UPDATE kv SET value = ? WHERE partition = ? AND key = ? AND value = ?"
_DELETE = "DELETE FROM kv WHERE partition = ? AND key = ?"
_DELETE_EQUAL = "DELETE FROM kv WHERE partition = ? AND key = ? AND value = ?"
_PAGE = "SELECT key, value FROM kv WHERE partition = ? AND key >= ? ORDER BY key LIMIT ?"
_NTH = "SELECT key FROM kv WHERE partition = ? ORDER BY key LIMIT 1 OFFSET ?"
_PARTITION = "SELECT partition FROM kv WHERE partition >= ? ORDER BY partition LIMIT 1"
_DROP = "DELETE FROM kv WHERE partition = ?"
_DROP_BEFORE = "DELETE FROM kv WHERE partition = ? AND key < ?"


_NETWORKS = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|ocfs2|gfs2|davfs|"
    r"fuse\.(?!gocryptfs|encfs|bindfs|mergerfs|lxcfs|fuse-overlayfs).*"
)
_MOUNTS = Path("/proc/self/mounts")


def refuse_network(path: Path) -> None:
    """Refuse a database on a network file system, whose locks and shared memory do not work."""
    with suppress(OSError):
        place, best, kind = path.parent.resolve(), -1, ""
        for line in _MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
            _, mount, found, *_ = line.split(" ")
            mount = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), mount)
            if place.is_relative_to(mount) and len(mount) >= best:
                best, kind = len(mount), found
        if _NETWORKS.fullmatch(kind):
            raise InvalidInputError(
                f"{path} is on a network file system ({kind}), where SQLite can lose writes: use a local "
                "folder or PostgreSQL; or, for one host, put ?network=accept at the end of the URI"
            )


class SQLiteKVStore(Driver):
    """A key-value store in one SQLite file.

    Args:
        path: The file. It and its folder are created if missing. A file without write permission
            is read, and writes raise ReadOnlyError.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        patience_seconds: float = 30.0,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        network: bool = False,
    ) -> None:
        self._path = Path(path).absolute()
        if not network:
            refuse_network(self._path)
        self._patience_seconds = patience_seconds
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        try:
            make_folder(self._path.parent)
        except OSError as error:
            raise InvalidInputError(f"cannot make the folder of {self._path}: {error}") from error
        self._writable = may_write(self._path)
        if self._writable:
            with suppress(OSError):  # SQLite reports why the file cannot be created
                create_file(self._path)  # its log and index get the same permissions
        self._identity = FileIdentity(self._path, self._path)
        self._turns = FileTurns(self._path.with_name(f"{self._path.name}-turns"), self._clock)
        self._connections = self._new_connections()
        try:
            self._run(self._prepare)
        except BaseException:
            self.close()
            raise
        watch(self)

    def _get(self, partition: str, key: bytes) -> bytes | None:
        row = self._run(lambda c: c.execute(_GET, (partition, key)).fetchone())
        return None if row is None else row[0]

    def _get_many(self, keys: Sequence[tuple[str, bytes]]) -> Mapping[tuple[str, bytes], bytes]:
        statement = _GET_MANY + " OR ".join([_ONE_OF] * len(keys))
        parameters = [part for key in keys for part in key]
        rows = self._run(lambda c: c.execute(statement, parameters).fetchall())
        return {(partition, key): value for partition, key, value in rows}

    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        self._run(lambda c: c.execute(_SET, (partition, key, value)))

    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        self._run_many(_SET, [(partition, key, value) for key, value in chunk])

    def _delete_chunk(self, partition: str, chunk: list[bytes]) -> None:
        self._run_many(_DELETE, [(partition, key) for key in chunk])

    def _run_many(self, statement: str, rows: Sequence[tuple[str | bytes, ...]]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(statement, rows)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        self._run(write)

    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        parameters: tuple[str | bytes, ...]
        if predicate is ABSENT:
            statement, parameters = _SET_ABSENT, (partition, key, value)
        elif predicate is PRESENT:
            statement, parameters = _SET_PRESENT, (value, partition, key)
        else:
            statement, parameters = _SET_EQUAL, (value, partition, key, predicate)
        return self._run(lambda c: c.execute(statement, parameters).rowcount, conditional=True) == 1

    def _delete(self, partition: str, key: bytes) -> None:
        self._run(lambda c: c.execute(_DELETE, (partition, key)))

    def _delete_if(self, partition: str, key: bytes, value: bytes) -> bool:
        parameters = (partition, key, value)
        return (
            self._run(lambda c: c.execute(_DELETE_EQUAL, parameters).rowcount, conditional=True)
            == 1
        )

    def _drop(self, partition: str) -> None:
        # in parts, so that other writers can write in between
        while self._run(lambda c: self._drop_some(c, partition)):
            pass

    def _page(self, partition: str, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return self._run(lambda c: c.execute(_PAGE, (partition, start, limit)).fetchall())

    def partitions(self, prefix: str) -> Iterator[str]:
        self._check_open()

        def first(start: str) -> str | None:
            row = self._run(lambda c: c.execute(_PARTITION, (start,)).fetchone())
            return None if row is None else row[0]

        return partition_names(prefix, first)

    def close(self) -> None:
        self._connections.close()

    def after_fork_in_child(self) -> None:
        """Discard the parent's connections. SQLite does not allow their use after a fork."""
        abandon(self._connections)
        closed = self._connections.closed
        self._connections = self._new_connections()
        if closed:
            self._connections.close()

    def _new_connections(self) -> Connections:
        busy_seconds = self._patience_seconds / _ATTEMPTS
        if not self._writable:
            return ReadOnlyConnections(self._path, busy_seconds)
        return WritingConnections(self._path, busy_seconds, check=self._check_same)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if not self._writable:
            connection.execute(_ANY).close()
            return
        with closing(connection.execute("PRAGMA journal_mode = WAL")) as cursor:
            mode = cursor.fetchone()[0]
        if mode != "wal":
            raise InvalidInputError(
                f"{self._path} cannot have a write-ahead log (journal mode {mode!r}), as on some "
                "network file systems: use a local folder, or PostgreSQL"
            )
        connection.execute(_CREATE)

    def _check_same(self) -> None:
        self._identity.check()

    def _check_open(self) -> None:
        if self._connections.closed:
            raise self._connections.error()

    @staticmethod
    def _drop_some(connection: sqlite3.Connection, partition: str) -> bool:
        row = connection.execute(_NTH, (partition, _DROP_AT_ONCE)).fetchone()
        if row is None:
            connection.execute(_DROP, (partition,))
        else:
            connection.execute(_DROP_BEFORE, (partition, row[0]))
        return row is not None

    def _run(self, work: Callable[[sqlite3.Connection], _T], *, conditional: bool = False) -> _T:
        """Do `work`, and repeat it if another writer has locked the file."""
        attempt = 1
        while True:
            try:
                with self._connections.borrow() as connection:
                    return work(connection)
            except sqlite3.Error as error:
                self._check_same()
                busy = _primary_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
                if not busy or attempt == _ATTEMPTS:
                    raise self._translated(error, conditional=conditional) from error
            self._clock.sleep(self._ids.jitter() * _LONGEST_PAUSE)
            attempt += 1

    def _translated(self, error: sqlite3.Error, *, conditional: bool) -> GravelerError:
        code = _primary_code(error)
        message = f"{self._path}: {error}"
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return BackendUnavailableError(
                f"{message}: other writers held it for {self._patience_seconds:g} seconds; repeat"
            )
        # a disk that is full while the log's index is created has its own error code
        exact = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_FULL or exact == sqlite3.SQLITE_IOERR_SHMSIZE:
            return StorageFullError(f"{message}: free space on its disk and repeat")
        if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            return CorruptionError(f"{message}: keep the file, restore it from a backup")
        unopened = code == sqlite3.SQLITE_CANTOPEN
        if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM} or (
            unopened and _has_descriptor()
        ):
            refused = ReadOnlyError if code == sqlite3.SQLITE_READONLY else InvalidInputError
            return refused(
                f"{message}: to be written to, the file and its folder must be writable by user id "
                f"{os.geteuid()}, and their disk not read-only"
            )
        if unopened or code == sqlite3.SQLITE_IOERR:
            # the effect of a failed fsync is unknown
            lost = conditional and not unopened
            kind = OutcomeUnknownError if lost else BackendUnavailableError
            advice = NO_DESCRIPTOR if unopened else "check the disk and the system log"
            return kind(f"{message}: {advice}")
        return InternalError(f"{message} ({getattr(error, 'sqlite_errorname', 'no code')})")


def _has_descriptor() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def _primary_code(error: sqlite3.Error) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
