import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from threading import Barrier

import pytest

from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    PreconditionFailedError,
    StorageFullError,
)
from graveler.kv.drivers.sqlite import SQLiteKVStore
from graveler.kv.store import ABSENT
from graveler.testing.clock import FakeClock
from tests.harness.programs import output_of

ITEMS = [(b"%06d" % number, b"v" * 100) for number in range(2000)]


class _Releasing(FakeClock):
    """A clock that releases a lock at the n-th pause."""

    def __init__(self, holder: sqlite3.Connection, pauses: int) -> None:
        super().__init__()
        self.holder = holder
        self.left = pauses

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.left -= 1
        if self.left == 0:
            self.holder.execute("ROLLBACK")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kv.sqlite3"


def _holder(path: Path) -> sqlite3.Connection:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    return holder


def _open_files(folder: Path) -> list[str]:
    links = (link for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return [str(link.readlink()) for link in links if str(folder) in str(link.readlink())]


def test_a_write_is_on_disk_when_it_returns(path: Path) -> None:
    with SQLiteKVStore(path) as store, store._connections.borrow() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_a_full_disk_is_told_and_what_was_there_stays(path: Path) -> None:
    with SQLiteKVStore(path) as store:
        store.set_many("p", ITEMS)
        with store._connections.borrow() as connection:
            connection.execute("PRAGMA max_page_count = 1")  # no more pages than now
        for call in [
            lambda: store.set("q", b"k", b"v" * 100_000),
            lambda: store.set_if("q", b"k", b"v" * 100_000, ABSENT),
            lambda: store.set_many("q", ((key, value * 100) for key, value in ITEMS)),
        ]:
            with pytest.raises(StorageFullError, match="free space"):
                call()
        assert list(store.scan("p")) == ITEMS
        assert list(store.scan("q")) == []
        store.set("p", b"000000", b"w" * 100)
    with SQLiteKVStore(path) as store:
        assert len(list(store.scan("p"))) == len(ITEMS)
        store.set_many("q", ITEMS)


def test_a_file_of_another_kind_is_not_touched(path: Path) -> None:
    path.write_bytes(b"a,b,c\n" * 1000)
    with pytest.raises(CorruptionError, match="not a database"):
        SQLiteKVStore(path)
    assert path.read_bytes() == b"a,b,c\n" * 1000


def test_a_damaged_file_is_told(path: Path) -> None:
    with SQLiteKVStore(path) as store:
        store.set_many("p", ITEMS)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(CorruptionError, match="malformed"), SQLiteKVStore(path) as store:
        list(store.scan("p"))


def test_a_file_that_may_not_be_written_is_read_and_told(path: Path) -> None:
    with SQLiteKVStore(path) as store:
        store.set("p", b"k", b"kept")
    path.chmod(0o444)
    path.parent.chmod(0o555)
    # The folders above it are private to the user who runs the tests.
    private = [folder for folder in path.parents if folder.stat().st_mode & 0o077 == 0]
    for folder in private:
        folder.chmod(0o755)
    try:
        output = output_of("kv.programs.read_only_sqlite", path)
    finally:
        path.parent.chmod(0o755)
        for folder in private:
            folder.chmod(0o700)
    assert "b'kept'" in output
    assert str(path) in output
    assert "must be writable by user id" in output


def test_what_is_in_place_of_the_file_or_its_folder_is_told(tmp_path: Path, path: Path) -> None:
    with pytest.raises(InvalidInputError, match="unable to open"):
        SQLiteKVStore(tmp_path)
    path.write_text("")
    with pytest.raises(InvalidInputError, match="cannot make the folder"):
        SQLiteKVStore(path / "kv.sqlite3")


def test_a_write_waits_for_another_writer(path: Path) -> None:
    SQLiteKVStore(path).close()
    with closing(_holder(path)) as holder:
        clock = _Releasing(holder, pauses=3)
        with SQLiteKVStore(path, patience_seconds=0.06, clock=clock) as store:
            store.set_many("p", ITEMS)
            assert list(store.scan("p")) == ITEMS
        assert clock.left == 0


def test_a_write_gives_up_and_a_read_does_not_wait(path: Path) -> None:
    SQLiteKVStore(path).close()
    with (
        closing(_holder(path)) as holder,
        SQLiteKVStore(path, patience_seconds=0.06, clock=FakeClock()) as store,
    ):
        for call in [
            lambda: store.set("p", b"k", b"v"),
            lambda: store.set_if("p", b"k", b"v", ABSENT),
            lambda: store.set_many("p", ITEMS),
            lambda: store.delete("p", b"k"),
            lambda: store.drop("p"),
        ]:
            with pytest.raises(BackendUnavailableError, match=r"for 0\.06 seconds"):
                call()
        assert list(store.scan("p")) == []
        assert store.get("p", b"k") is None
        holder.execute("ROLLBACK")
        store.set_many("p", ITEMS)


def test_a_scan_under_way_does_not_hold_back_the_log(path: Path) -> None:
    with SQLiteKVStore(path) as store, closing(sqlite3.connect(path)) as other:
        store.set_many("p", ITEMS)
        scan = store.scan("p")
        next(scan)
        store.set_many("q", ITEMS)
        busy, frames, moved = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert (busy, frames, moved) == (0, 0, 0)
        assert len(list(scan)) == len(ITEMS) - 1


def test_a_write_that_fails_leaves_nothing_open(path: Path) -> None:
    failing: list[tuple[type[Exception], Callable[[SQLiteKVStore], object]]] = [
        (PreconditionFailedError, lambda store: store.set_if("p", b"k", b"v", ABSENT)),
        (InternalError, lambda store: store.set_many("p", [(b"l", b"v"), ("text", b"v")])),  # type: ignore[list-item]
        (
            ZeroDivisionError,
            lambda store: store.set_many("p", ((b"m", b"%d" % (1 // n)) for n in [1, 0])),
        ),
    ]
    with SQLiteKVStore(path) as store, SQLiteKVStore(path, patience_seconds=0) as other:
        store.set("p", b"k", b"v")
        for number, (error, call) in enumerate(failing):
            with pytest.raises(error):
                call(store)
            other.set("p", b"k", b"%d" % number)
            assert list(store.scan("p")) == [(b"k", b"%d" % number)]


def test_close_closes_the_connections_of_all_threads(path: Path) -> None:
    store = SQLiteKVStore(path)
    together = Barrier(4)

    def work(number: int) -> None:
        with store._connections.borrow():
            together.wait(timeout=60)
        store.set("p", b"%d" % number, b"v")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(_open_files(path.parent)) >= 4
    with store._connections.borrow() as connection:
        store.close()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert _open_files(path.parent) == []  # one that was in use is closed when it is given back
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_threads_that_come_and_go_leave_no_connections(path: Path) -> None:
    with SQLiteKVStore(path) as store:
        for number in range(20):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(store.set, "p", b"%d" % number, b"v").result()
        assert len(list(islice(store.scan("p"), 100))) == 20
        assert len([name for name in _open_files(path.parent) if name == str(path)]) == 1


def test_a_forked_child_uses_no_connection_of_its_parent(path: Path) -> None:
    with SQLiteKVStore(path) as store:
        with store._connections.borrow() as parents:
            assert parents.execute("SELECT 1").fetchone() == (1,)
        child = os.fork()
        if child == 0:
            with store._connections.borrow() as connection:
                os._exit(0 if connection is not parents else 1)
        assert os.waitpid(child, 0)[1] == 0
