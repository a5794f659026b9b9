"""Tables in Pebble's format, made from its byte layout, are read; altered tables are refused."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import CorruptionError
from graveler.sstable.format import CHECKSUMS, _crc32c_by_table
from graveler.sstable.reader import TableReader
from tests.harness.pebble import LEVELDB_MAGIC, block, masked_crc32c, pebble_table, uvarint
from tests.sstable.tables import rocksdb_read, some_records

FOOTERS = ["rocksdb", "leveldb"]
COMPRESSIONS = ["none", "snappy", "zstd"]

keys = st.lists(st.sampled_from([0, 1, 97, 98, 255]), max_size=9).map(bytes)
values = st.one_of(st.binary(max_size=8), st.integers(100, 5_000).map(bytes))


@settings(max_examples=60)
@given(
    content=st.dictionaries(keys, values, max_size=40),
    footer=st.sampled_from(FOOTERS),
    compression=st.sampled_from(COMPRESSIONS),
    block_bytes=st.sampled_from([1, 100, 4096]),
    index_bytes=st.sampled_from([1, 60, 4096]),
    start=keys,
)
def test_any_records_come_back(content, footer, compression, block_bytes, index_bytes, start):
    records = sorted(content.items())
    data = pebble_table(
        records,
        footer=footer,
        compression=compression,
        block_bytes=block_bytes,
        index_bytes=index_bytes,
    )
    table = TableReader(data)
    assert list(table.items()) == records


@pytest.mark.parametrize("footer", FOOTERS)
def test_a_table_of_many_blocks_has_an_index_of_two_levels(footer):
    records = some_records(2_000, value_bytes=120)
    data = pebble_table(records, footer=footer, properties={"type": "ranges"})
    table = TableReader(data)
    assert table.properties["rocksdb.block.based.table.index.type"] == b"\x02\0\0\0"
    assert table.properties["type"] == b"ranges"
    assert table.count == len(records)
    assert list(table.items()) == records


def test_rocksdb_reads_what_the_encoder_writes(tmp_path):
    # checks the encoder: without this, two equal mistakes could agree in the other tests
    records = some_records(2_000, value_bytes=120)
    path = tmp_path / "t.sst"
    path.write_bytes(pebble_table(records))
    database = rocksdb_read(path, tmp_path)
    try:
        assert list(database.items()) == records
    finally:
        database.close()


def test_a_leveldb_table_without_properties_is_read():
    pairs = [(b"%03d" % number, b"v") for number in range(40)]
    out = bytearray()

    def place(raw: bytes) -> bytes:
        handle = uvarint(len(out)) + uvarint(len(raw))
        out.extend(raw + b"\0" + masked_crc32c(raw + b"\0").to_bytes(4, "little"))
        return handle

    data = place(block(((key + b"\x01" + bytes(7), value) for key, value in pairs), 16))
    index = place(block([(b"1" + bytes(8), data)], 1))
    meta = place(block([], 1))
    table = TableReader(bytes(out) + (meta + index).ljust(40, b"\0") + LEVELDB_MAGIC)
    assert table.count is None
    assert list(table.items()) == pairs


def test_a_leveldb_table_with_properties_counts_its_records():
    data = pebble_table(some_records(10), footer="leveldb", stated={"rocksdb.num.entries": b"\x0b"})
    with pytest.raises(CorruptionError, match="10 records, but its properties say 11"):
        list(TableReader(data).items())


@pytest.mark.parametrize("footer", FOOTERS)
def test_a_changed_byte_is_noticed_wherever_it_is(footer):
    records = some_records(60)
    data = pebble_table(records, footer=footer, block_bytes=300, index_bytes=200)
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        try:
            assert list(TableReader(bytes(damaged)).items()) == records  # zero bytes of the footer
        except CorruptionError:
            continue
        assert len(data) - position <= 53


def test_a_truncated_leveldb_table_is_refused():
    data = pebble_table(some_records(60), footer="leveldb")
    for cut in (1, 40, 47, 48, 49, 53, 200):
        for part in (data[:-cut], data[cut:], data[-cut:]):
            with pytest.raises(CorruptionError):
                TableReader(part)


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 65_534, 65_535, 65_536, 200_000])
def test_both_ways_to_compute_crc32c_agree_at_any_size(size):
    data = os.urandom(size // 2) + bytes(size - size // 2)
    for compression in (0, 1, 7):
        whole = data + bytes([compression])
        assert CHECKSUMS[1](data, compression) == masked_crc32c(whole) == _crc32c_by_table(whole)
