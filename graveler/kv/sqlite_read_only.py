"""Connections to a SQLite file that this process may not write to.

A file in WAL mode needs two more files, which a reader creates if they are missing. A reader that
may not create them has three cases:

- The log and its index exist: a process has the file open, or died while it was open. Both are used
  unchanged.
- Only the log exists: file and log are copied to a temporary folder, and read there.
- The log is missing or empty: all data is in the file, and no process has it open. The file is read
  as immutable. When a log appears, a process has opened the file, and the first case applies.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
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


class ReadOnlyConnections:
    """Reading connections, each used by one thread at a time. Forks wait while one is in use."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._index = path.with_name(f"{path.name}-shm")
        self._busy_seconds = busy_seconds
        self._lock = Lock()
        self._idle: list[tuple[_State, sqlite3.Connection]] = []
        self._copies: list[Path] = []
        self._process = os.getpid()
        self.closed = False

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection to the current state of the file."""
        with held_off:
            state, connection = self._take()
            try:
                yield connection
            finally:
                with self._lock:
                    if self.closed:
                        connection.close()
                    else:
                        self._idle.append((state, connection))

    def close(self) -> None:
        """Close idle connections, and remove the copies. The call may be repeated."""
        with held_off, self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
            for _, connection in idle:
                connection.close()
            copies, self._copies = self._copies, []
            if self._process == os.getpid():  # in a forked child they belong to the parent
                for copy in copies:
                    shutil.rmtree(copy, ignore_errors=True)

    def _take(self) -> tuple[_State, sqlite3.Connection]:
        with self._lock:
            if self.closed:
                raise StateError(f"the store in {self._path} is closed: open it again")
            state = self._look()
            while self._idle:
                kept, connection = self._idle.pop()
                if kept == state:
                    return state, connection
                connection.close()
            return state, self._connect(state)

    def _look(self) -> _State:
        log = _stamps(self._log)
        if not log or not log[1]:
            return _State("alone", _stamps(self._path))
        if self._index.exists():
            return _State("shared", _stamps(self._path)[2:])  # another file may take its place
        return _State("copied", _stamps(self._path) + log)

    def _connect(self, state: _State) -> sqlite3.Connection:
        path, options = self._path, {"shared": "mode=ro", "alone": "immutable=1"}.get(state.way, "")
        if state.way == "copied":
            path = self._copy()
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?{options}",
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

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
