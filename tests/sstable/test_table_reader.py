import mmap
from itertools import product
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import CorruptionError
from graveler.sstable.reader import TableReader
from tests.sstable.tables import (
    COMPRESSIONS,
    TABLES,
    rocksdb_read,
    rocksdb_written,
    some_records,
    written,
)


@settings(max_examples=150, deadline=None)
@given(content=TABLES, compression=st.sampled_from(COMPRESSIONS))
def test_any_records_come_back_in_key_order(content, compression):
    records = sorted(content.items())
    table = TableReader(written(records, compression=compression))
    assert list(table.items()) == records


@pytest.mark.parametrize("length", [127, 128, 129, 1000, 1024, 4096])
def test_long_keys_and_values_come_back(length):
    stem = b"k" * (length - 2)
    records = [(stem + b"%02d" % i, b"v" * (length + i)) for i in range(40)]
    table = TableReader(written(records))
    assert list(table.items()) == records


def test_a_value_far_above_a_blocks_size_comes_back():
    records = [(b"a", b"1"), (b"b", bytes(range(256)) * 80_000), (b"c", b"3")]
    assert list(TableReader(written(records)).items()) == records


def test_a_table_is_read_from_a_map_of_the_file_or_a_view(tmp_path):
    records = some_records(300)
    data = written(records)
    path = tmp_path / "t.sst"
    path.write_bytes(data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert list(TableReader(mapped).items()) == records
    for view in (memoryview(data), bytearray(data)):
        table = TableReader(view)
        assert list(table.items()) == records
        assert type(next(table.items())[0]) is bytes


def test_many_threads_read_one_table():
    records = some_records(3000)
    table = TableReader(written(records))
    found: list[bool] = []
    threads = [
        Thread(target=lambda: found.append(list(table.items()) == records)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("compression", ["none", "snappy", "lz4", "lz4hc", "zstd"])
def test_tables_that_rocksdb_wrote_otherwise_are_read(tmp_path, version, compression):
    records = some_records(400)
    for restart, block_bytes, two_levels, index_restart in product(
        (1, 4, 16), (200, 4096), (False, True), (1, 5)
    ):
        data = rocksdb_written(
            tmp_path / "t.sst",
            records,
            version=version,
            compression=compression,
            restart=restart,
            block_bytes=block_bytes,
            two_levels=two_levels,
            index_restart=index_restart,
        )
        table = TableReader(data)
        assert list(table.items()) == records


@pytest.mark.parametrize("checksum", ["crc32c", "xxhash", "xxhash64", "xxh3"])
@pytest.mark.parametrize("version", [2, 6])
def test_every_checksum_of_rocksdb_is_verified(tmp_path, checksum, version):
    records = some_records(100)
    data = rocksdb_written(tmp_path / "t.sst", records, checksum=checksum, version=version)
    assert list(TableReader(data).items()) == records
    for position in (0, 50, len(data) - 200):
        damaged = bytearray(data)
        damaged[position] ^= 4
        with pytest.raises(CorruptionError, match="checksum"):
            list(TableReader(bytes(damaged)).items())


def test_a_table_without_checksums_is_refused(tmp_path):
    data = rocksdb_written(tmp_path / "t.sst", some_records(10), checksum="no_checksum")
    with pytest.raises(CorruptionError, match="checksum kind 0"):
        TableReader(data)


def test_a_table_with_hashed_blocks_is_refused(tmp_path):
    table = TableReader(rocksdb_written(tmp_path / "t.sst", some_records(100), hash_index=True))
    with pytest.raises(CorruptionError, match="restarts"):
        list(table.items())


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_rocksdb_reads_our_tables(tmp_path, compression):
    records = some_records(3000)
    path = tmp_path / "t.sst"
    path.write_bytes(written(records, compression=compression, properties={"type": "range"}))
    database = rocksdb_read(path, tmp_path)
    try:
        assert list(database.items()) == records
        assert database.get(records[1500][0]) == records[1500][1]
    finally:
        database.close()
