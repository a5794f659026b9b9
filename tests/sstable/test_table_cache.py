"""A shared cache of RocksDB distinguishes blocks by session id, file number and offset."""

import rocksdict

from tests.sstable.tables import rocksdb_read, written


def test_two_tables_in_one_cache_do_not_share_records(tmp_path):
    cache = rocksdict.Cache(64 * 1024 * 1024)
    contents = [
        [(b"key-%05d" % i, letter * 100) for i in range(2000)] for letter in (b"a", b"b", b"c")
    ]
    databases = []
    try:
        for number, records in enumerate(contents):
            folder = tmp_path / str(number)
            folder.mkdir()
            path = folder / "t.sst"
            path.write_bytes(written(records, compression="none", identity=b"table %d" % number))
            databases.append(rocksdb_read(path, folder, cache=cache))
        for _ in range(2):
            for database, records in zip(databases, contents, strict=True):
                assert [database.get(key) for key, _ in records] == [v for _, v in records]
    finally:
        for database in databases:
            database.close()
