"""A reader of damaged bytes returns the right records or raises CorruptionError."""

from itertools import pairwise

import pytest

from graveler.errors import CorruptionError
from graveler.sstable.reader import TableReader
from tests.sstable.tables import Records, rocksdb_written, some_records, written

MASKS = (0x01, 0x08, 0x80, 0xFF)


def noticed(damaged: bytes, records: Records) -> bool:
    """Return whether the reader refuses the bytes; wrong records fail the test."""
    try:
        found = list(TableReader(damaged, name="damaged").items())
    except CorruptionError:
        return True
    assert found == records
    return False


@pytest.fixture(params=["snappy", "none", "zstd", "lz4"])
def table(request) -> tuple[bytes, Records]:
    records = some_records(40)
    return written(records, compression=request.param, properties={"type": "range"}), records


def test_any_byte_changed_is_noticed_or_does_not_matter(table):
    data, records = table
    unnoticed = []
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= MASKS[position % len(MASKS)]
        if not noticed(bytes(damaged), records):
            unnoticed.append(position)
    # only the footer has no checksum: its padding, and versions with the same meaning
    assert all(position >= len(data) - 53 for position in unnoticed)


def test_a_table_that_lost_or_gained_bytes_is_noticed(table):
    data, records = table
    middle = len(data) // 2
    for length in range(1, len(data), 3):
        assert noticed(data[:-length], records)
        assert noticed(data[length:], records)
        assert noticed(data[:middle] + data[middle + length :], records)
    assert noticed(b"", records)
    for more in (b"\0", data, data[-53:]):
        assert noticed(data + more, records)


def test_two_blocks_in_each_others_place_are_noticed():
    records = [(b"key-%04d" % i, b"%04d" % i * 100) for i in range(2000)]
    data = written(records, compression="none")
    handles = TableReader(data)._index.handles
    one, other = next((a, b) for a, b in pairwise(handles) if a.size == b.size)
    parts = [data[each.offset : each.offset + each.size + 5] for each in (one, other)]
    swapped = data.replace(parts[0], b"?").replace(parts[1], parts[0]).replace(b"?", parts[1], 1)
    assert len(swapped) == len(data)
    assert noticed(swapped, records)


def test_a_changed_footer_of_version_6_is_noticed(tmp_path):
    records = some_records(20)
    data = rocksdb_written(tmp_path / "t.sst", records, version=6)
    for position in range(len(data) - 53, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        assert noticed(bytes(damaged), records)


@pytest.mark.parametrize("data", [b"", b"x", bytes(53), bytes(1000), b"\xff" * 1000])
def test_what_is_no_table_is_refused(data):
    with pytest.raises(CorruptionError, match="table: "):
        TableReader(data)
