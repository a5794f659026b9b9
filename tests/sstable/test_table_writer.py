import errno
import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

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


def write(path: Path, rows: Iterable[tuple[Any, Any]]) -> None:
    with TableWriter(path) as table:
        for key, value in rows:
            table.records[key] = value
        table.finish(IDENTITY, {})


def rows_and(error: BaseException) -> Iterator[tuple[bytes, bytes]]:
    yield b"a", b""
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
    properties = TableReader(written(some_records(2000))).properties
    assert properties["rocksdb.compression"] == b"Snappy"
    assert properties["rocksdb.creating.host.identity"] == b""
    assert properties["rocksdb.original.file.number"] == b"\x01"
    assert properties["rocksdb.filter.size"] == b"\x00"


def test_equal_records_give_equal_bytes_in_every_process(tmp_path):
    env = {"PYTHONHASHSEED": "1", "TMPDIR": str(tmp_path), "PATH": "/bin"}
    there = output_of("sstable.programs.table_digest", env=env).strip()
    for properties in ({"b": "2", "a": "1"}, {"a": "1", "b": "2"}):
        assert sha256(written(some_records(500), properties=properties)).hexdigest() == there


def test_an_interrupted_import_of_rocksdict_is_survived(monkeypatch):
    """Python then forgets the package and keeps its extension, and the package cannot run again."""
    before = written(some_records(10))
    monkeypatch.delitem(sys.modules, "rocksdict")
    _options.cache_clear()
    assert written(some_records(10)) == before
    _options.cache_clear()


def test_tables_of_different_identity_have_different_session_ids():
    records = some_records(10)
    tables = [written(records, identity=bytes((i,))) for i in range(20)]
    tables.append(written(records, identity=bytes((1,)), compression="zstd"))
    sessions = {TableReader(table).properties[SESSION] for table in tables}
    assert len(sessions) == 21
    assert all(len(session) == 20 and session.isalnum() for session in sessions)


def test_the_empty_key_and_empty_values_are_kept():
    records = [(b"", b""), (b"\x00", b""), (b"\x00\x00", b"1")]
    table = TableReader(written(records))
    assert list(table.items()) == records


@pytest.mark.parametrize(
    ("rows", "error", "reason"),
    [
        ([(b"b", b""), (b"b", b"")], UnsortedKeysError, r"t\.sst"),
        ([(b"b", b""), (b"", b"")], UnsortedKeysError, r"t\.sst"),
        ([("text", b"")], InvalidInputError, "bytes"),
        ([(b"key", "text")], InvalidInputError, "bytes"),
        ([], InvalidInputError, "no record"),
    ],
    ids=["twice", "descending", "a text as key", "a text as value", "empty"],
)
def test_records_that_make_no_table_are_refused(tmp_path, rows, error, reason):
    with pytest.raises(error, match=reason):
        write(tmp_path / "t.sst", rows)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_takes_no_file_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="folder"):
        TableWriter(tmp_path / "none" / "t.sst")
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
    write(path, [(b"a", b"1")])
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
        write(tmp_path / "t.sst", rows_and(error))
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
    def fsync(_descriptor: int) -> None:
        raise OSError(number, "the disk")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(expected, match="the disk"):
        write(tmp_path / "t.sst", [(b"a", b"1")])
    assert list(tmp_path.iterdir()) == []
