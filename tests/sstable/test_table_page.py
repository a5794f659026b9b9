"""The example on the page is a valid table."""

import re
from pathlib import Path

import pytest

from graveler.model import BLOCK_BYTES, KEY_BYTES
from graveler.sstable.reader import TableReader
from tests.sstable.tables import rocksdb_read, written

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "table.md"
RECORDS = [(b"input/a", b"1"), (b"input/b", b"22"), (b"output", b"")]
ROW = re.compile(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", re.MULTILINE)


@pytest.fixture
def example() -> bytes:
    data = bytearray()
    for offset, row in ROW.findall(PAGE.read_text("utf-8")):
        assert int(offset, 16) == len(data)
        data += bytes.fromhex(row)
    return bytes(data)


def test_the_example_is_read(example):
    table = TableReader(example)
    assert list(table.items()) == RECORDS
    assert table.user_properties == {"type": "range"}


def test_rocksdb_reads_the_example(example, tmp_path):
    path = tmp_path / "t.sst"
    path.write_bytes(example)
    database = rocksdb_read(path, tmp_path)
    try:
        assert list(database.items()) == RECORDS
    finally:
        database.close()


def test_the_example_is_what_the_writer_writes(example):
    properties = {"type": "range"}
    assert example == written(
        RECORDS, compression="none", identity=b"example", properties=properties
    )


def test_the_limits_on_the_page_are_those_of_the_reader():
    page = PAGE.read_text("utf-8")
    assert f"keys of up to {KEY_BYTES:,} bytes" in page
    assert f"blocks of up to {BLOCK_BYTES // 2**20} MiB" in page
