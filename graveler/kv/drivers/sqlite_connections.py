"""Connections to a SQLite file, each used by one thread at a time. Forks wait until none is in use.

A reader that may not create the two files beside a WAL database has three cases: log and index
exist, and both are used unchanged; only the log exists, and file and log are copied and read there;
the log is missing or empty, and the file is read as immutable until one appears.
"""

import os
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from graveler.base.forks import held_off
from graveler.errors import BackendUnavailableError, StateError


@dataclass(frozen=True, slots=True)
class _State:
    """How to read the file, and the state for which a connection stays valid."""

    way: str
    stamps: tuple[int, ...]


class Connections(ABC):
    """Connections to one file: one for each concurrent thread."""

    def __init__(
        self,
        path: Path,
        busy_seconds: float,
        *,
        check: Callable[[], None] | None = None,
        look: Callable[[], _State] | None = None,
    ) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._check = check
        self._look = look
        self._lock = Lock()
        self._all: list[sqlite3.Connection] = []
        self._idle: list[tuple[_State | None, sqlite3.Connection]] = []
        self.closed = False

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to the current state of the file."""
        with held_off:
            with self._lock:
                closed = self.closed  # and again below: another thread may close meanwhile
                if closed:
                    raise self.error()
                state = self._look() if self._look else None
                # the last returned connection still has pages in its cache
                while self._idle and self._idle[-1][0] != state:
                    self._discard(self._idle.pop()[1])
                if self._idle:
                    connection = self._idle.pop()[1]
                else:
                    connection = self._connect(state)
                    self._all.append(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    if self.closed:
                        self._discard(connection)
                    else:
                        self._idle.append((state, connection))

    def close(self) -> None:
        """Close idle connections. The call may be repeated."""
        with held_off, self._lock:
            self.closed = True
            while self._idle:
                self._discard(self._idle.pop()[1])

    def error(self) -> StateError:
        """Return the error of a call after `close`."""
        return StateError(f"the store in {self._path} is closed: open it again")

    def _discard(self, connection: sqlite3.Connection) -> None:
        self._all.remove(connection)
        connection.close()

    def _open(self, name: str, setting: str, *, uri: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            name,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            uri=uri,
        )
        try:
            connection.execute(setting)
            if self._check:
                self._check()
        except BaseException:
            connection.close()
            raise
        return connection

    @abstractmethod
    def _connect(self, state: _State | None) -> sqlite3.Connection:
        """Return a new connection."""


class WritingConnections(Connections):
    """Connections that also write."""

    def _connect(self, state: _State | None) -> sqlite3.Connection:
        return self._open(str(self._path), "PRAGMA synchronous = FULL")


class ReadOnlyConnections(Connections):
    """Connections that only read."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        super().__init__(path, busy_seconds, look=self._state)
        self._log = path.with_name(f"{path.name}-wal")
        self._index = path.with_name(f"{path.name}-shm")
        self._copies: list[Path] = []
        self._process = os.getpid()

    def close(self) -> None:
        """Close idle connections, and remove the copies. The call may be repeated."""
        super().close()
        with held_off, self._lock:
            copies, self._copies = self._copies, []
            if self._process == os.getpid():  # in a forked child they belong to the parent
                for copy in copies:
                    shutil.rmtree(copy, ignore_errors=True)

    def _state(self) -> _State:
        log = _stamps(self._log)
        if not log or not log[1]:
            return _State("alone", _stamps(self._path))
        if self._index.exists():
            return _State("shared", _stamps(self._path)[2:])  # another file may take its place
        return _State("copied", _stamps(self._path) + log)

    def _connect(self, state: _State | None) -> sqlite3.Connection:
        way = state.way if state else ""
        path = self._copy() if way == "copied" else self._path
        options = {"shared": "mode=ro", "alone": "immutable=1"}.get(way, "")
        return self._open(f"file:{quote(str(path))}?{options}", "PRAGMA query_only = ON", uri=True)

    def _copy(self) -> Path:
        try:
            folder = Path(tempfile.mkdtemp(prefix="graveler-kv-"))
            self._copies.append(folder)
            for file in (self._path, self._log):
                shutil.copyfile(file, folder / file.name)
        except OSError as error:
            raise BackendUnavailableError(
                f"{self._path} is copied to be read: {error}: free space or close files, and repeat"
            ) from error
        return folder / self._path.name


def _stamps(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    return (status.st_mtime_ns, status.st_size, status.st_ino)
