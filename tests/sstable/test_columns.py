"""Blocks that are decoded together give the records and errors of blocks read one by one."""

from array import array
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import CorruptionError
from graveler.sstable import columns, reader
from graveler.sstable.block import encode_block
from graveler.sstable.reader import TableReader
from tests.sstable.damage import mutations
from tests.sstable.tables import (
    COMPRESSIONS,
    PUT,
    TABLES,
    Records,
    forged,
    records_block,
    resealed,
    rocksdb_written,
    some_records,
    written,
)


def read(data: bytes, *, together: bool) -> Records | str:
    """Return the records by columns, or the text of the error."""
    with patch.object(reader, "loaded", lambda _records: together):
        try:
            found = list(TableReader(data).columns())
        except CorruptionError as error:
            return str(error)
    for some in found:
        pairs = zip(some.keys, some.values, strict=True)
        assert array("I", some.lengths).tolist() == [len(part) for pair in pairs for part in pair]
    return [row for some in found for row in zip(some.keys, some.values, strict=True)]


def one_by_one(data: bytes) -> Records | str:
    try:
        return list(TableReader(data).items())
    except CorruptionError as error:
        return str(error)


def agreed(data: bytes) -> Records | str:
    """Return the common result of all three ways of reading."""
    result = one_by_one(data)
    assert read(data, together=False) == result
    assert read(data, together=True) == result
    return result


def decoded_together(data: bytes) -> int:
    """Return the number of records that are decoded together."""
    table = TableReader(data)
    return sum(len(found.keys) for _, found in table._together(0))


@settings(max_examples=80)
@given(content=TABLES, compression=st.sampled_from(COMPRESSIONS))
def test_any_records_come_back_in_key_order(content, compression):
    records = sorted(content.items())
    assert agreed(written(records, compression=compression)) == records


@pytest.mark.parametrize("restart", [1, 16, 64, 65])
@pytest.mark.parametrize("block_bytes", [256, 4096])
def test_tables_with_runs_of_any_length_are_read(tmp_path, restart, block_bytes):
    records = some_records(2_500)
    data = rocksdb_written(tmp_path / "t", records, restart=restart, block_bytes=block_bytes)
    assert agreed(data) == records
    usual = restart <= 64 or block_bytes == 256
    assert decoded_together(data) == (2_500 if usual else 0)


@pytest.mark.parametrize("length", [20, 119, 120, 127, 128, 4096])
def test_long_keys_and_values_are_decoded_together(length):
    stem = b"k" * (length - 4)
    records = [(stem + b"%04d" % i, b"v" * (length + i)) for i in range(1_500)]
    data = written(records)
    assert agreed(data) == records
    assert decoded_together(data) > 800  # several MiB together


def test_a_block_with_an_uncommon_value_goes_the_slow_way(monkeypatch):
    monkeypatch.setattr(reader, "_TOGETHER", 40_000)  # two blocks
    records = some_records(4_000)
    records[2_000] = records[2_000][0], bytes(70_000)
    data = written(records)
    assert agreed(data) == records
    assert 0 < decoded_together(data) < 2_000
    monkeypatch.setattr(reader, "_TOGETHER", 1_000)  # less than a block
    assert agreed(data) == records
    assert decoded_together(data) == 0


@pytest.mark.parametrize("rows", [1, 7, 1_024])
def test_keys_that_do_not_ascend_are_refused_wherever_they_are(monkeypatch, rows):
    monkeypatch.setattr(columns, "_ROWS", rows)
    for at in (1, 15, 16, 17, 30, 59):
        records = some_records(60)
        records[at] = records[at - 1][0], b""
        half = len(records) // 2
        blocks = [(records_block(records[:half]), 0), (records_block(records[half:]), 0)]
        separators = [records[half - 1][0], records[-1][0]]
        assert "data block" in agreed(forged(blocks, separators, count=60))


ONE, LATE = records_block([(b"a", b"1")]), records_block([(b"c", b"")])
EARLY, EMPTY = records_block([(b"a", b""), (b"c", b"")]), records_block([])


@pytest.mark.parametrize(
    ("blocks", "separators", "count", "reason"),
    [
        ([LATE], [b"b"], 1, "past its index entry"),
        ([ONE, LATE], [b"c", b"d"], 2, None),
        ([ONE, ONE], [b"a", b"b"], 2, "keys ascend"),
        ([ONE, EARLY], [b"b", b"d"], 3, "keys ascend"),
        ([ONE, EMPTY, LATE], [b"a", b"b", b"d"], 2, None),
        ([EMPTY], [b"b"], 0, None),
    ],
    ids=range(6),
)
def test_keys_outside_their_index_entry_are_refused(blocks, separators, count, reason):
    found = agreed(forged([(each, 0) for each in blocks], separators, count=count))
    assert reason is None or reason in found


def test_entries_that_are_no_puts_go_the_slow_way():
    deleted = encode_block([(b"a" + bytes(8), b"")], 16)
    assert "only puts" in agreed(forged([(deleted, 0)], [b"b"]))
    pairs = [(b"a", b"1"), (b"a\x01", b"2"), (b"a\x01\x00", b"3"), (b"a\x01\x00\x01", b"4")]
    data = forged([(records_block(pairs), 0)], [b"b"], count=4)
    assert agreed(data) == pairs
    assert decoded_together(data) == 0
    assert agreed(forged([(encode_block([(PUT, b"")], 16), 0)], [b"b"])) == [(b"", b"")]


@pytest.mark.usefixtures("_in_bounded_time")
@pytest.mark.parametrize("kind", ["snappy", "none"])
def test_damage_with_right_checksums_is_seen_alike(tmp_path, kind):
    random = Random(15)
    for data in (
        written(some_records(300, value_bytes=300), compression=kind),
        rocksdb_written(tmp_path / "t", some_records(200), restart=4, block_bytes=512),
    ):
        for damaged in mutations(data, random, 100):
            try:
                TableReader(damaged)
            except CorruptionError:
                continue
            agreed(damaged)


def test_a_damaged_block_is_named_after_the_records_before_it(monkeypatch):
    monkeypatch.setattr(reader, "_TOGETHER", 20_000)
    data = written(some_records(4_000), compression="none")
    handle = TableReader(data)._index.handles[2]
    damaged = bytearray(data)
    damaged[handle.offset + 9] ^= 1
    assert f"data block at {handle.offset}: checksum" in agreed(bytes(damaged))
    assert f"data block at {handle.offset}" in agreed(
        resealed(data[: handle.offset] + b"\xff" * 12 + data[handle.offset + 12 :], handle)
    )


def test_numpy_is_loaded_when_it_pays(monkeypatch):
    monkeypatch.setattr(reader, "sys", type("Sys", (), {"modules": {}}))
    monkeypatch.setattr(reader._Decoded, "records", 0)
    assert [reader.loaded(20_000) for _ in range(4)] == [False, False, True, True]
