"""RocksDB's own tool, and RocksDB itself, read every table that a repository writes."""

import pytest
import rocksdict

import graveler
from graveler.committed.cache.table import TableKind
from graveler.sstable.reader import TableReader
from tests.harness.rocksdb_tools import linked_tables
from tests.harness.worlds import SMALL
from tests.sstable.tables import COMPRESSIONS, written


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The ranges and metaranges of a repository: commits, a merge, a deletion, a revert."""
    folder = tmp_path_factory.mktemp("lake")
    with graveler.init(folder) as lake:
        repo = lake.create_repository("flights", splitting=SMALL)
        main = repo.branch("main")
        for day in range(4):
            for hour in range(24):
                path = f"input/2013/01/{day:02}/{hour:02}:00/part-é-{hour}.parquet"
                main.put(path, b"x" * hour, metadata={"hour": str(hour)}, content_type="a/b")
            main.commit(f"day {day}")
        dev = repo.create_branch("dev")
        dev.delete("input/2013/01/02/03:00/part-é-3.parquet")
        dev.commit("without an hour")
        main.put("output/all.csv", b"1")
        main.commit("output")
        repo.merge("dev", into="main")
    found: dict[TableKind, list[bytes]] = {kind: [] for kind in TableKind}
    for file in sorted((folder / "objects" / "flights" / "_graveler").iterdir()):
        if file.name != "marker":
            data = file.read_bytes()
            found[TableKind(TableReader(data).user_properties["type"])].append(data)
    assert len(found[TableKind.RANGE]) > 20
    assert len(found[TableKind.METARANGE]) >= 6
    return found


@pytest.mark.parametrize("kind", TableKind)
def test_sst_dump_finds_no_fault_in_any_table(sst_dump, tables, kind, tmp_path):
    folder = linked_tables(tmp_path / "tables", tables[kind])
    said = sst_dump(folder, "check", "--verify_checksum")
    assert said.count("Process ") == len(tables[kind])
    assert sst_dump(folder, "verify").count("The file is ok") == len(tables[kind])
    for file, data in zip(sorted(folder.iterdir()), tables[kind], strict=True):
        assert list(sst_dump.records(file)) == list(TableReader(data).items())


@pytest.mark.parametrize("kind", TableKind)
def test_sst_dump_shows_the_properties_of_a_table(sst_dump, tables, kind, tmp_path):
    data = max(tables[kind], key=len)
    (file,) = linked_tables(tmp_path / "tables", [data]).iterdir()
    shown = sst_dump.properties(file)
    own = TableReader(data).user_properties
    assert shown["entries"] == own["count"]
    assert shown["comparator name"] == "leveldb.BytewiseComparator"
    assert {name: shown[f"graveler.{name}"] for name in own} == {
        name: f"0x{value.encode().hex().upper()}" for name, value in own.items()
    }


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", TableKind)
def test_rocksdb_and_its_tool_read_every_compression(sst_dump, tables, kind, compression, tmp_path):
    source = TableReader(max(tables[kind], key=len))
    # enough copies to fill several blocks, so that compression is used
    records = [
        (b"%03d/%s" % (copy, key), value) for copy in range(200) for key, value in source.items()
    ]
    data = written(records, compression=compression, properties=source.user_properties)
    (file,) = linked_tables(tmp_path / "tables", [data]).iterdir()
    assert sst_dump(file, "check", "--verify_checksum").count("Process ") == 1
    assert list(sst_dump.records(file)) == records
    name = {"none": "NoCompression", "snappy": "Snappy", "lz4": "LZ4", "zstd": "ZSTD"}[compression]
    assert sst_dump.properties(file)["SST file compression algo"] == name
    assert _ingested(file, tmp_path / "db") == records


def test_a_damaged_table_is_a_fault_for_sst_dump(sst_dump, tables, tmp_path):
    data = bytearray(tables[TableKind.RANGE][0])
    data[30] ^= 1
    folder = linked_tables(tmp_path / "tables", [bytes(data)])
    with pytest.raises(AssertionError, match="checksum mismatch"):
        sst_dump(folder, "check", "--verify_checksum")


@pytest.mark.parametrize("kind", TableKind)
def test_rocksdb_takes_every_table_of_a_repository_in(tables, kind, tmp_path):
    folder = linked_tables(tmp_path / "tables", tables[kind])
    for file, data in zip(sorted(folder.iterdir()), tables[kind], strict=True):
        assert _ingested(file, tmp_path / f"db-{file.stem}") == list(TableReader(data).items())


def _ingested(table, folder):
    database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    try:
        database.ingest_external_file([str(table)])
        return list(database.items())
    finally:
        database.close()
