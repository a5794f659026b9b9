import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest

from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    LakeLockedError,
    StateError,
    StorageFullError,
)
from graveler.kv.drivers.rocksdb import RocksDBKVStore
from graveler.kv.store import ABSENT
from tests.harness.programs import output_of
from tests.harness.workers import StartWorker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv"


def test_stores_on_one_folder_share_it(folder: Path) -> None:
    with RocksDBKVStore(folder) as first:
        with RocksDBKVStore(folder / ".." / folder.name) as second:
            second.set("p", b"k", b"v")
            second.close()
            with pytest.raises(StateError, match="closed"):
                second.get("p", b"k")
        assert list(first.scan("p")) == [(b"k", b"v")]


def test_the_last_one_to_close_gives_the_folder_back(
    folder: Path, start_worker: StartWorker
) -> None:
    first, second = RocksDBKVStore(folder), RocksDBKVStore(folder)
    first.close()
    first.close()
    second.set("p", b"k", b"v")
    worker = start_worker("hold", f"rocksdb://{folder}")
    assert "LakeLockedError" in worker.communicate(timeout=60)[1]
    second.close()
    worker = start_worker("hold", f"rocksdb://{folder}")
    assert worker.communicate(timeout=60) == ("open\n", "")


def test_a_scan_left_half_way_does_not_keep_the_folder(folder: Path) -> None:
    store = RocksDBKVStore(folder)
    store.set_many("p", [(b"%d" % number, b"v") for number in range(1000)])
    scan = store.scan("p")
    next(scan)
    store.close()
    with RocksDBKVStore(folder) as again:
        again.set_if("p", b"k", b"v", ABSENT)


def test_a_failed_opening_leaves_nothing_behind(folder: Path, start_worker: StartWorker) -> None:
    holder = start_worker("hold", f"rocksdb://{folder}")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    for _ in range(2):
        with pytest.raises(LakeLockedError):
            RocksDBKVStore(folder)
    assert holder.communicate(timeout=60) == ("", "")
    RocksDBKVStore(folder).close()


def test_a_write_cut_short_is_left_out_and_damage_is_told(folder: Path) -> None:
    output_of("kv.programs.unclosed_rocksdb", folder)
    (log,) = folder.glob("*.log")
    content = bytearray(log.read_bytes())
    damaged = folder.parent / "damaged"
    copytree(folder, damaged)
    log.write_bytes(content[:-7])
    with RocksDBKVStore(folder) as store:
        assert [key for key, _ in store.scan("p")] == [b"%03d" % number for number in range(99)]
    content[len(content) // 2] ^= 0xFF
    (damaged / log.name).write_bytes(content)
    with pytest.raises(CorruptionError, match="backup"):
        RocksDBKVStore(damaged)


def test_a_damaged_folder_or_none_is_told(folder: Path) -> None:
    RocksDBKVStore(folder).close()
    (folder / "CURRENT").write_text("garbage")
    with pytest.raises(CorruptionError, match="CURRENT"):
        RocksDBKVStore(folder)
    with pytest.raises(InvalidInputError, match="give a folder"):
        RocksDBKVStore(folder / "CURRENT")


@contextmanager
def no_room() -> Iterator[None]:
    """Let the system refuse the bytes of files beyond 100,000."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_folder_takes_writes_again_after_a_full_disk(folder: Path) -> None:
    with RocksDBKVStore(folder) as store, RocksDBKVStore(folder) as other:
        with no_room():
            acknowledged = 0
            with pytest.raises(StorageFullError):
                while store.set_if("p", b"%03d" % acknowledged, b"v" * 1000, ABSENT):
                    acknowledged += 1
            with pytest.raises(StorageFullError):
                store.set("p", b"k", b"v" * 1000)
            assert other.get("p", b"000") is not None  # the open folder can still be read
        expected = [b"%03d" % number for number in range(acknowledged)]
        assert [key for key, _ in other.scan("p")] == expected
        store.set("p", b"k", b"v")
        assert [key for key, _ in other.scan("p")] == [*expected, b"k"]
    with RocksDBKVStore(folder) as again:
        assert [key for key, _ in again.scan("p")] == [*expected, b"k"]
