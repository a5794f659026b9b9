import errno
import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    NotFoundError,
    StateError,
    StorageFullError,
    UnsortedKeysError,
)
from graveler.sstable.reader import TableReader
from graveler.sstable.writer import TableWriter, _options
from tests.harness.programs import output_of
from tests.sstable.tables import COMPRESSIONS, IDENTITY, some_records, written

SESSION = "rocksdb.creating.session.identity"


def failing_fsync(number: int, message: str):
    def fsync(_descriptor: int) -> None:
        raise OSError(number, message)

    return fsync


def write(path: Path, keys: Iterable[bytes]) -> None:
    with TableWriter(path) as table:
        for key in keys:
            table.records[key] = b""
        table.finish(IDENTITY, {})


def keys_and(error: BaseException) -> Iterator[bytes]:
    yield b"a"
    raise error


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_table_gives_back_its_records_and_properties(compression):
    records = some_records(2000)
    table = TableReader(
        written(records, compression=compression, properties={"type": "range", "note": "für"})
    )
    assert list(table.items()) == records
    assert table.count == 2000
    assert table.user_properties == {"type": "range", "note": "für"}
    assert table.properties["graveler.type"] == b"range"


def test_the_table_has_the_form_that_the_page_promises():
    table = TableReader(written(some_records(2000)))
    assert table.properties["rocksdb.compression"] == b"Snappy"
    assert table.properties["rocksdb.creating.host.identity"] == b""
    assert table.properties["rocksdb.original.file.number"] == b"\x01"
    assert "rocksdb.filter.size" in table.properties
    assert table.properties["rocksdb.filter.size"] == b"\x00"


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_equal_records_give_equal_bytes(compression):
    records = some_records(500)
    hashes = {sha256(written(records, compression=compression)).digest() for _ in range(8)}
    assert len(hashes) == 1


def test_equal_records_give_equal_bytes_in_other_processes(tmp_path):
    hashes = {
        output_of(
            "sstable.programs.table_digest",
            env={"PYTHONHASHSEED": seed, "TMPDIR": str(tmp_path), "PATH": "/bin"},
        ).strip()
        for seed in ("1", "2")
    }
    here = written(some_records(500), properties={"b": "2", "a": "1"})
    assert hashes == {sha256(here).hexdigest()}


def test_an_interrupted_import_of_rocksdict_is_survived(monkeypatch):
    """Python then forgets the package and keeps its extension, and the package cannot run again."""
    before = written(some_records(10))
    monkeypatch.delitem(sys.modules, "rocksdict")
    _options.cache_clear()
    assert written(some_records(10)) == before
    _options.cache_clear()


def test_tables_of_different_identity_have_different_session_ids():
    records = some_records(10)
    sessions = {
        TableReader(written(records, identity=bytes((i,)))).properties[SESSION] for i in range(50)
    }
    assert len(sessions) == 50
    assert all(len(session) == 20 and session.isalnum() for session in sessions)


def test_an_identity_over_other_blocks_gives_another_session_id():
    plain = TableReader(written(some_records(500), compression="none"))
    small = TableReader(written(some_records(500), compression="zstd"))
    assert plain.properties[SESSION] != small.properties[SESSION]


@pytest.mark.parametrize("key", [b"b", b"a", b""])
def test_a_descending_key_is_refused_and_the_file_removed(tmp_path, key):
    path = tmp_path / "t.sst"
    with pytest.raises(UnsortedKeysError, match=r"t\.sst"):
        write(path, (b"b", key))
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_bytes_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="bytes"), TableWriter(tmp_path / "k") as table:
        table.records["text"] = b""  # type: ignore[index] # the mistake under test
    with pytest.raises(InvalidInputError, match="bytes"), TableWriter(tmp_path / "v") as table:
        table.records[b"key"] = "text"  # type: ignore[assignment] # the mistake under test
    assert list(tmp_path.iterdir()) == []


def test_an_empty_table_is_refused_and_the_file_removed(tmp_path):
    with TableWriter(tmp_path / "t.sst") as table:
        with pytest.raises(InvalidInputError, match="no record"):
            table.finish(IDENTITY, {})
        assert list(tmp_path.iterdir()) == []


def test_the_empty_key_and_empty_values_are_kept():
    records = [(b"", b""), (b"\x00", b""), (b"\x00\x00", b"1")]
    table = TableReader(written(records))
    assert list(table.items()) == records


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="folder"):
        TableWriter(tmp_path / "none" / "t.sst")


def test_a_folder_in_the_files_place_is_an_error_of_the_disk(tmp_path):
    with pytest.raises(BackendUnavailableError, match="directory"):
        TableWriter(tmp_path)
    assert tmp_path.is_dir()


def test_a_file_removed_while_it_is_written_is_missed(tmp_path):
    path = tmp_path / "t.sst"
    with TableWriter(path) as table:
        table.records[b"a"] = b"1"
        path.unlink()
        with pytest.raises(NotFoundError, match="removed"):
            table.finish(IDENTITY, {})


def test_a_file_in_the_way_is_replaced(tmp_path):
    path = tmp_path / "t.sst"
    path.write_bytes(b"x" * 100_000)
    with TableWriter(path) as table:
        table.records[b"a"] = b"1"
        table.finish(IDENTITY, {})
    assert path.read_bytes() == written([(b"a", b"1")])


def test_a_finished_table_takes_no_more(tmp_path):
    path = tmp_path / "t.sst"
    with TableWriter(path) as table:
        table.records[b"a"] = b"1"
        table.finish(IDENTITY, {})
        before = path.read_bytes()
        with pytest.raises(StateError):
            table.records[b"b"] = b"2"
        with pytest.raises(StateError):
            table.finish(IDENTITY, {})
        table.abort()
    with pytest.raises(StateError), table:
        table.records[b"b"] = b"2"
    assert path.read_bytes() == before


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), OSError(28, "else")])
def test_an_error_of_the_caller_passes_and_the_file_is_removed(tmp_path, error):
    with pytest.raises(type(error)) as caught:
        write(tmp_path / "t.sst", keys_and(error))
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_a_table_left_without_finish_is_removed(tmp_path):
    with TableWriter(tmp_path / "t.sst") as table:
        table.records[b"a"] = b"1"
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_while_adding_records_leaves_nothing(tmp_path):
    assert "no space left" in output_of("sstable.programs.full_disk", tmp_path / "t.sst")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
        (errno.EIO, BackendUnavailableError),
    ],
)
def test_a_disk_that_fails_at_the_end_leaves_nothing(tmp_path, monkeypatch, number, expected):
    with TableWriter(tmp_path / "t.sst") as table:
        table.records[b"a"] = b"1"
        monkeypatch.setattr(os, "fsync", failing_fsync(number, "the disk"))
        with pytest.raises(expected, match="the disk"):
            table.finish(IDENTITY, {})
    assert list(tmp_path.iterdir()) == []
