import mmap
from itertools import product

import pytest

from graveler.errors import CorruptionError
from graveler.sstable.reader import TableReader
from tests.sstable.tables import COMPRESSIONS, rocksdb_read, rocksdb_written, some_records, written


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


FORMS = [*product((1, 16), (200, 4096), (False, True), (1, 5))]


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("compression", ["none", "snappy", "lz4", "lz4hc", "zstd"])
def test_tables_that_rocksdb_wrote_otherwise_are_read(tmp_path, version, compression):
    records = some_records(400)
    # each version and each compression has all forms, but not each pair of them
    shift = version + len(compression)
    for restart, block_bytes, two_levels, index_restart in FORMS[shift % 4 :: 4]:
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
        assert list(TableReader(data).items()) == records


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


@pytest.mark.parametrize(
    ("option", "reason"),
    [({"checksum": "no_checksum"}, "checksum kind 0"), ({"hash_index": True}, "restarts")],
    ids=["no checksums", "hashed blocks"],
)
def test_a_table_that_rocksdb_wrote_for_others_is_refused(tmp_path, option, reason):
    data = rocksdb_written(tmp_path / "t.sst", some_records(100), **option)
    with pytest.raises(CorruptionError, match=reason):
        list(TableReader(data).items())


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
