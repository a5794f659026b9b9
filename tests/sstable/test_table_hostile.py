"""Tables with correct checksums and wrong content."""

import struct
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest

from graveler.errors import CorruptionError
from graveler.model import BLOCK_BYTES
from graveler.sstable.block import encode_block
from graveler.sstable.format import varints
from graveler.sstable.reader import TableReader
from tests.sstable.tables import PUT, forged, records_block, sealed

pytestmark = pytest.mark.usefixtures("_in_bounded_time")

ONE = records_block([(b"a", b"1")])
ENDLESS = b"\xff" * 12
KIND = b"rocksdb.block.based.table.index.type"
TWO_LEVELS = {KIND: b"\x02\0\0\0"}
DELTA = {b"rocksdb.index.value.is.delta.encoded": b"\x01"}
HUGE = varints(2**63)


def entry(shared: int, rest: bytes, value: bytes = b"") -> bytes:
    return varints(shared) + varints(len(rest)) + varints(len(value)) + rest + value


def block(entries: bytes, *restarts: int) -> bytes:
    return entries + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def refusal(data: bytes) -> str:
    with pytest.raises(CorruptionError, match=r"^forged: ") as caught:
        list(TableReader(data, name="forged").items())
    return str(caught.value)


def test_a_forged_table_without_a_fault_is_read():
    table = TableReader(
        forged([(ONE, 0), (records_block([(b"b", b"2")]), 0)], [b"a", b"c"], count=2)
    )
    assert list(table.items()) == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.parametrize("kind", [0, 2, 255])
def test_only_puts_are_records(kind):
    other = bytes((kind,)) + bytes(7)
    first = encode_block([(b"a" + other, b"")], 16)
    assert f"of type {kind}" in refusal(forged([(first, 0)], [b"b"]))
    # the same if the trailer is shared with the key before
    second = block(entry(0, b"a" + PUT) + entry(2, other), 0)
    assert f"of type {kind}" in refusal(forged([(second, 0)], [b"b"], count=2))


def test_a_sequence_number_is_no_part_of_the_key():
    trailers = [b"\x01" + bytes((number,)) * 7 for number in (9, 8, 5, 4)]
    keys = [b"a", b"a\x01\x09\x09", b"b", b"b\x01\x05"]
    pairs = [(key + trailer, b"") for key, trailer in zip(keys, trailers, strict=True)]
    table = TableReader(forged([(encode_block(pairs, 16), 0)], [b"c"], count=4))
    assert [key for key, _ in table.items()] == keys


@pytest.mark.parametrize(
    "keys", [[b"b", b"a"], [b"a", b"a"], [b"a", b""], [b"", b""], [b"ab", b"a"]]
)
def test_keys_that_do_not_ascend_in_a_block_are_refused(keys):
    pairs = [(key, b"") for key in keys]
    assert "keys ascend" in refusal(forged([(records_block(pairs), 0)], [b"z"], count=2))
    assert "keys ascend" in refusal(forged([(records_block(pairs, 1), 0)], [b"z"], count=2))


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0\0\0",
        block(entry(0, b"a" + PUT)),
        block(entry(0, b"a" + PUT), 1),
        block(entry(0, b"a" + PUT), 0, 0),
        block(entry(0, b"a" + PUT), 0, 5),
        block(entry(0, b"a" + PUT) + entry(0, b"b" + PUT), 0, 11),
        block(entry(0, b"a" + PUT), 0, 2**32 - 1),
        entry(0, b"a" + PUT) + struct.pack("<II", 0, 2**31 + 1),
        block(entry(0, PUT[1:]), 0),
        block(entry(0, b""), 0),
        block(entry(1, b"a" + PUT), 0),
        block(entry(0, b"a" + PUT) + entry(1, b"b" + PUT), 0, 12),
        block(ENDLESS, 0),
        block(b"\0\x09" + ENDLESS, 0),
        block(HUGE + b"\0\0", 0),
        block(b"\0" + HUGE + b"\0a" + PUT, 0),
        block(b"\0\x09\x7fa" + PUT, 0),
        block(b"\0\x09", 0),
        block(b"\0\x7f\0" + b"a" + PUT, 0),
        block(entry(0, b"k" * 5000 + PUT), 0),
    ],
)
def test_a_data_block_that_does_not_parse_is_refused(damaged):
    assert "data block at 0: " in refusal(forged([(damaged, 0)], [b"zz"]))


def test_records_before_the_first_restart_are_not_left_out():
    hidden = block(entry(0, b"a" + PUT) + entry(0, b"b" + PUT), 12)
    assert "do not ascend from 0" in refusal(forged([(hidden, 0)], [b"zz"]))


@pytest.mark.parametrize(
    "index",
    [
        b"",
        block(b""),
        block(ENDLESS, 0),
        encode_block([(b"zz", b"")], 1),
        encode_block([(b"zz", ENDLESS)], 1),
        encode_block([(b"zz", b"\0" + HUGE)], 1),
        encode_block([(b"zz", varints(0) + varints(1000))], 1),
        encode_block([(b"b", b"\0" + varints(len(ONE))), (b"a", b"\x50\x01")], 1),
        encode_block([(b"a", b"\0" + varints(len(ONE))), (b"b", b"\0" + varints(len(ONE)))], 1),
        encode_block([(b"a", b"\x05\x01"), (b"b", b"\0\x01")], 1),
    ],
)
def test_an_index_that_leads_nowhere_is_refused(index):
    assert "fsck" in refusal(forged([(ONE, 0)], [b"a"], index=index))


def entries_at(*places: tuple[bytes, int]) -> bytes:
    return encode_block([(key, varints(offset) + b"\x15") for key, offset in places], 1)


@pytest.mark.parametrize(
    ("index", "properties", "reason"),
    [
        (entries_at((b"b", 0), (b"a", 26)), {}, "separator b'a' after"),
        (entries_at((b"a", 0), (b"a", 26)), {}, "separator b'a' after"),
        (entries_at((b"a", 0), (b"b", 25)), {}, "overlap"),
        (entries_at((b"a", 26), (b"b", 0)), {}, "overlap"),
        (entries_at((b"a", 0), (b"b", 0)), TWO_LEVELS, "overlap"),
        (block(b"\0\x01\x09a" + b"\0\x15", 0), {}, "past its restart"),
        (block(b"\0\x01a\0", 0), DELTA, "past its restart"),
        (
            block(b"\0\x01a\0\x15" + b"\x01\x01b" + varints(2 * 40 - 1), 0),
            DELTA,
            "-19 bytes at 26: ",
        ),
        (entries_at((b"a", 0)), {b"rocksdb.index.key.is.user.key": b"\0"}, "no trailer"),
    ],
    ids=range(9),
)
def test_an_index_out_of_order_is_refused(index, properties, reason):
    data = forged([(ONE, 0), (ONE, 0)], [], index=index, properties=properties, count=2)
    assert reason in refusal(data)


@pytest.mark.parametrize(
    "tail",
    [varints(0) + varints(2 * 10**6 + 1), b"\0" + ENDLESS, b"\x01" * 30, b"\x01\x01b\x01" * 3],
)
def test_a_delta_encoded_index_that_leads_nowhere_is_refused(tail):
    first = b"\0\x01a" + b"\0" + varints(len(ONE))
    index = block(first + b"\x01\x01b" + tail, 0)
    assert "fsck" in refusal(forged([(ONE, 0)], [b"a"], index=index, properties=DELTA))


def test_an_index_that_leads_to_itself_is_refused():
    own = encode_block([(b"a", varints(len(ONE) + 5) + varints(14))], 1)
    assert len(own) == 14
    data = forged([(ONE, 0)], [b"a"], index=own, properties=TWO_LEVELS)
    assert "fsck" in refusal(data)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"properties": {KIND: b"\x01\0\0\0"}}, "index type 1"),
        ({"properties": {KIND: b"\xff\0\0\0"}}, "index type 255"),
        ({"metaindex": {b"rocksdb.compression_dict": b"\0\x01"}}, "rocksdb.compression_dict"),
        ({"metaindex": {b"rocksdb.range_del": b"\0\x01"}}, "rocksdb.range_del"),
        ({"properties": {b"rocksdb.comparator": b"reverse"}}, "reverse"),
        ({"properties": {b"rocksdb.num.entries": b""}}, "number"),
        ({"properties": {b"rocksdb.num.entries": b"\x01\x01"}}, "rocksdb.num.entries"),
        ({"properties": {b"rocksdb.num.entries": b"\x02"}}, "1 records, but its properties say 2"),
        ({"properties": {b"rocksdb.num.entries": HUGE}}, "1 records, but"),
        ({"properties": {b"rocksdb.index.key.is.user.key": ENDLESS}}, "number"),
        ({"without": b"rocksdb.num.entries"}, "missing"),
    ],
    ids=range(11),
)
def test_what_changes_the_meaning_of_records_is_refused(parts, reason):
    assert reason in refusal(forged([(ONE, 0)], [b"a"], **parts))


def test_a_property_of_ours_that_is_no_text_is_refused():
    table = TableReader(forged([(ONE, 0)], [b"a"], properties={b"graveler.type": b"\xff"}))
    with pytest.raises(CorruptionError, match="UTF-8"):
        _ = table.user_properties


@pytest.mark.parametrize(
    ("kind", "stored", "reason"),
    [
        (1, b"", "no number"),
        (1, b"\x05", "snappy"),
        (1, ENDLESS, "no number"),
        (1, varints(BLOCK_BYTES + 1) + b"x", "up to"),
        (4, varints(2**40), "up to"),
        (4, varints(100) + b"\xff", "type 4"),
        (4, varints(100) + bytes(cramjam.lz4.compress_block(ONE, store_size=False)), "holds"),
        (4, varints(5) + bytes(cramjam.lz4.compress_block(ONE, store_size=False)), "type 4"),
        (7, varints(100) + b"\x28\xb5\x2f\xfd", "type 7"),
        (7, varints(100) + bytes(cramjam.zstd.compress(ONE)), "holds"),
        (7, varints(5) + bytes(cramjam.zstd.compress(ONE)), "type 7"),
        (99, ONE, "type 99 is not supported"),
    ],
)
def test_blocks_that_do_not_decompress_are_refused(kind, stored, reason):
    assert reason in refusal(forged([(stored, kind)], [b"a"]))


def peak(action: Callable[[], object]) -> int:
    """Return the peak of Python's memory in `action`, in bytes above the memory before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_is_cut_off_at_the_size_it_declares():
    frames = bytes(cramjam.zstd.compress(bytes(BLOCK_BYTES))) * 16
    data = forged([(varints(BLOCK_BYTES) + frames, 7)], [b"a"])
    assert len(data) < 100_000
    assert peak(lambda: refusal(data)) < 2.1 * BLOCK_BYTES
    small = varints(BLOCK_BYTES) + bytes(cramjam.zstd.compress(ONE))
    data = forged([(small, 7)] * 100, [b"%03d" % i for i in range(100)])
    assert peak(lambda: refusal(data)) < 2.1 * BLOCK_BYTES


def test_a_block_of_very_many_records_is_not_held_at_once():
    count = 50_000
    entries = b"".join(b"\0\x0c\0" + i.to_bytes(4, "big") + PUT for i in range(count))
    big = block(entries, 0)
    data = forged([(big, 0)], [b"\xff"], count=count)
    table = TableReader(data)
    assert peak(lambda: sum(1 for _ in table.items())) < len(big) + 2_000_000


def test_an_index_that_expands_to_very_much_is_refused():
    stem = entry(0, b"k" * 4000, b"\0\x01")
    more = b"".join(entry(4000, b"%06d" % i, varints(i * 6) + b"\x01") for i in range(20_000))
    index = block(stem + more, 0)
    data = forged([(ONE, 0)], [b"a"], index=index)
    assert len(data) < 1_000_000
    reasons: list[str] = []
    assert peak(lambda: reasons.append(refusal(data))) < 2 * BLOCK_BYTES
    assert "keys take more than" in reasons[0]


def test_the_parts_of_an_index_together_are_limited():
    def part(letter: bytes) -> tuple[bytes, int]:
        stem = entry(0, letter * 4000, b"\0\x01")
        rest = b"".join(entry(4000, b"%06d" % i, b"\0\x01") for i in range(9000))
        return block(stem + rest, 0), 0

    parts = [part(b"a"), part(b"b")]
    second = len(parts[0][0]) + 5
    root = [(b"a", b"\0" + varints(second - 5)), (b"b", varints(second) + varints(second - 5))]
    data = forged(parts, [], index=encode_block(root, 1), properties=TWO_LEVELS)
    assert "keys take more than" in refusal(data)


def test_a_sealed_block_is_what_the_reader_expects():
    # checks the helper: without a correct checksum, every test here would pass
    assert sealed(ONE) in forged([(ONE, 0)], [b"a"])
