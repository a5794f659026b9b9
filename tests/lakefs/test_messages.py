"""Records and ids of lakeFS: published examples, and invalid bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import CorruptionError
from graveler.lakefs import messages
from graveler.lakefs.messages import LakefsCommit, commit_id, decode_value, framed_record
from graveler.lakefs.namespace import Namespace
from graveler.lakefs.wire import Message, WireError, read_signed
from graveler.objects.memory import MemoryStore
from tests.harness import lakefs as oracle
from tests.harness.lakefs import LakefsWriter, Obj, bytes_field, entry_record, file_id, svarint
from tests.harness.pebble import uvarint

IDS = [
    (
        LakefsCommit("", "Committer", "message", 0, "metarangeId", {"key": "value"}, ("parent1", "parent2")),
        10**9,
        "0c5f9d6fde638a6aa82840caf2485bdbe6ad0fc3f220ea88884df9ed99d7cf19",
    ),
    (
        LakefsCommit("", "user1", "message1", 0, "deadbeef123", {"foo": "bar"}, ("deadbeef1", "deadbeef12")),
        -62135596800,
        "2277b5abd2d3ba6b4d35c48a0e358b0c4bcf5cd6d891c67437fb4c4af0d2fd4b",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("commit", "seconds", "identifier"), IDS)
def test_the_id_of_a_commit_is_lakefs_s(commit, seconds, identifier):
    assert commit_id(commit, seconds) == identifier


def test_the_ids_of_files_are_lakefs_s():
    whole = "1f60902cb44890618d61597673a62e44cf526f5991d9db687141218985fe60b8"
    empty = "5105eaf20d56aa444d5402b4eab9d952aecff97791980db9141ca8e2590ce149"
    assert file_id([(b"key", b"value")], {}) == whole
    assert file_id([], {"type": "ranges"}) == empty
    assert framed_record(b"key", b"value") == b"3key|5value|"
    store = MemoryStore("lakefs-ids")
    writer = LakefsWriter(store.put)
    for records in ([], [(b"key", b"value")]):
        name = writer.file(records, {"type": "ranges"})
        assert (
            list(Namespace(store).records(store.get(f"_lakefs/{name}"), name, "ranges")) == records
        )


@pytest.mark.parametrize(
    ("identity", "data", "raw"),
    [
        (b"", b"", "0000"),
        (b"foo", b"", "06666f6f00"),
        (b"", b"the quick brown fox", "0026" + b"the quick brown fox".hex()),
        (b"foo", b"the quick brown fox", "06666f6f26" + b"the quick brown fox".hex()),
    ],
)
def test_value_records_are_read(identity, data, raw):
    assert decode_value(bytes.fromhex(raw)) == (identity, data)
    assert decode_value(bytes.fromhex(raw) + b"123456789") == (identity, data)


@pytest.mark.parametrize(
    "raw", ["", "03", "10666f6f", "06666f6f", "06666f6f11", "06666f6ffa", "06666f6f0461"]
)
def test_value_records_that_are_cut_off_are_refused(raw):
    with pytest.raises(WireError):
        decode_value(bytes.fromhex(raw))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(
    found=st.builds(
        Obj,
        address=texts,
        size=st.integers(0, 2**63 - 1),
        etag=texts,
        kind=st.integers(0, 2),
        metadata=st.dictionaries(texts, texts, max_size=3),
        content_type=texts,
        mtime=st.none() | st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 999_999_999)),
    )
)
def test_any_entry_comes_back(found):
    entry = messages.decode_entry(decode_value(entry_record(found))[1])
    assert (entry.address, entry.size, entry.etag) == (found.address, found.size, found.etag)
    assert (entry.metadata, entry.content_type) == (found.metadata, found.content_type)
    if found.mtime is None:
        assert entry.mtime_us is None
    else:
        seconds, nanos = found.mtime
        assert entry.mtime_us == seconds * 1_000_000 + nanos // 1000


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_any_signed_number_comes_back(value):
    assert read_signed(svarint(value), 0) == (value, len(svarint(value)))
    assert Message(uvarint(8) + uvarint(value % 2**64), "m").number(1) == value


def test_unknown_fields_are_skipped_and_the_last_value_counts():
    raw = (
        uvarint(99 << 3) + b"\x01"
        + uvarint(98 << 3 | 1) + bytes(8)
        + uvarint(97 << 3 | 5) + bytes(4)
        + bytes_field(1, "one") + bytes_field(1, "two")
    )  # fmt: skip
    message = Message(raw, "m")
    assert message.text(1) == "two"
    assert (message.number(5), message.text(6), message.pairs(7), message.texts(8)) == (
        0,
        "",
        {},
        (),
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff" * 11,
        b"\x08" + b"\xff" * 9 + b"\x7f",
        b"\x00\x01",
        b"\x0b",  # a protobuf group
        b"\x0c",
        b"\x0f\x00",
        b"\x0a\x05abc",
        b"\x0a" + uvarint(2**63),
        b"\x09" + bytes(7),
        b"\x0d" + bytes(3),
        b"\x08",
    ],
)
def test_bytes_that_are_no_message_are_refused(raw):
    with pytest.raises(WireError, match=r"^m: "):
        Message(raw, "m")


def test_fields_of_another_type_are_refused():
    number, text = Message(b"\x08\x01", "m"), Message(b"\x0a\x01\xff", "m")
    for read in (number.text, number.binary, number.texts, number.pairs, text.number, text.text):
        with pytest.raises(WireError, match="field 1 is not"):
            read(1)
    late = Message(bytes_field(1, b"\x10" + uvarint(10**9)), "m")
    with pytest.raises(WireError, match="1000000000 nanoseconds"):
        late.moment_us(1)


def record(data, identity=b"x"):
    return oracle.value_record(identity, data)


@pytest.mark.parametrize(
    ("decode", "key", "value", "reason"),
    [
        (messages.decode_commit, b"a", record(bytes_field(1, "b")), "is stored as b'a'"),
        (messages.decode_commit, b"a", record(bytes_field(1, "a")), "does not match its id"),
        (messages.decode_ref, b"a", record(bytes_field(1, "b")), "is stored as b'a'"),
        (messages.decode_ref, b"a", record(bytes_field(1, "a") + bytes_field(2, "x" * 64)), "not an id of"),
        (messages.decode_range, b"a", record(b"", b"0" * 63), "not an id of"),
        (messages.decode_range, b"a", record(b"", b"\xff" * 64), "not an id of"),
        (lambda _, raw: messages.decode_entry(decode_value(raw)[1]), b"a", record(b"\x30\x03"), "address type 3"),
    ],
)  # fmt: skip
def test_records_that_contradict_themselves_are_refused(decode, key, value, reason):
    with pytest.raises(CorruptionError, match=f"mem://ns/_lakefs/name, record b'a': .*{reason}"):
        Namespace(MemoryStore("ns")).decoded("name", decode, key, value)
