"""Records: a read returns what was written, and damage raises only CorruptionError."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.base.records import decode_json, encode_json
from graveler.errors import CorruptionError, NewerFormatError, OlderFormatError
from graveler.model import Entry, RangeInfo
from graveler.refs.epochs import Epoch
from graveler.runs.record import RunRecord
from graveler.values import (
    TOMBSTONE,
    Replacement,
    decode_entry,
    decode_range_info,
    decode_value,
    encode_entry,
    encode_range_info,
    encode_value,
    is_replacement,
    signature,
    stage_entry,
    staged_changes,
    staged_value,
    value_identity,
)
from tests.foundations.forms import FORMS, STORED

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "kv-layout.md"
WHEN = datetime(2013, 1, 1, 5, tzinfo=UTC)
CHECKSUM = "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
ENTRY = Entry("a/1.csv", "data/x1/1.csv", 3, CHECKSUM, "text/csv", WHEN, {"k": "v"}, computed=True)
RANGE = RangeInfo(b"\x07" * 32, b"a", b"z", 12, 3_456)
COMMIT = "d10abe136ce8812f191208a01c5b53cb8ad418a50b6f214eb6a45a8f23dd2418"
"""The id of the commit of the page."""

texts = st.text(max_size=10)
moments = st.integers(-(10**15), 4 * 10**15).map(
    lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)
entries = st.builds(
    Entry,
    path=st.text(min_size=1, max_size=10),
    address=texts,
    size=st.integers(0, 2**50),
    checksum=texts,
    content_type=texts,
    mtime=st.none() | moments,
    metadata=st.dictionaries(texts, texts, max_size=3),
    version=texts,
    computed=st.booleans(),
)
VALUE = encode_entry(ENTRY)[1]
RECORDS = {
    "value": (VALUE, decode_value),
    "identity": (VALUE, value_identity),
    "entry": (VALUE, lambda raw: decode_entry(b"a/1.csv", raw)),
    "range": (encode_range_info(RANGE), lambda raw: decode_range_info(b"z", raw)),
    "staged": (stage_entry(b"a/1.csv", ENTRY), staged_value),
    "signed": (
        signature("ada", datetime(2013, 1, 1, 5, tzinfo=UTC)) + stage_entry(b"a/1.csv", ENTRY),
        staged_value,
    ),
    "json": (encode_json({"a": [1, None, "é"]}), lambda raw: decode_json(raw, "x")),
}
FIELDS = ("branch", "commit", "run with everything", "try of a step")
RECORDS |= {name: (STORED[name], FORMS[name].decode) for name in FIELDS}


@given(entries)
def test_an_entry_comes_back(entry):
    identity, raw = encode_entry(entry)
    assert decode_entry(entry.path.encode(), raw) == entry
    assert decode_value(raw)[0] == value_identity(raw) == identity
    assert staged_value(stage_entry(entry.path.encode(), entry)) == raw


def test_a_range_comes_back():
    assert decode_range_info(b"z", encode_range_info(RANGE)) == RANGE


@given(st.binary(max_size=40), st.binary(max_size=400))
def test_a_value_comes_back_whatever_its_lengths(identity, data):
    raw = encode_value(identity, data)
    assert decode_value(raw) == (identity, data)
    assert value_identity(raw) == identity


def test_staged_writes_are_read_as_changes():
    plain, replacing = stage_entry(b"a", ENTRY), stage_entry(b"a", ENTRY, replaces=True)
    assert [is_replacement(raw) for raw in (plain, replacing, TOMBSTONE)] == [False, True, False]
    assert staged_value(replacing) == staged_value(plain)
    assert staged_value(TOMBSTONE) is None
    live, other, gone = staged_changes([(b"a", plain), (b"b", replacing), (b"c", TOMBSTONE)])
    assert live == (b"a", plain[1:33], VALUE)
    assert other == (b"b", *live[1:])
    assert gone == (b"c", None, None)
    assert [isinstance(one, Replacement) for one in (live, other, gone)] == [False, True, False]


def test_the_page_shows_what_is_written():
    page = PAGE.read_text()
    blocks = [block.split("```")[0].strip() for block in page.split("```json\n")[1:]]
    *records, epoch = [block for block in blocks if "…" not in block]
    for name, record in zip(("branch", "commit"), records, strict=True):
        encode, decode = FORMS[name]
        assert encode(decode(record.encode())).decode() == record
    assert json.loads(epoch).keys() == {"format", *Epoch.__dataclass_fields__}
    (block,) = [block.split("```")[0] for block in page.split("```hex\n")[1:]]
    digits = " ".join(line[:57].split("  ")[0] for line in block.splitlines())
    assert ENTRY.mtime is not None
    start = signature("ada", ENTRY.mtime)
    assert bytes.fromhex(digits) == start + stage_entry(b"a/1.csv", ENTRY)
    assert f"commit/{COMMIT}" in page
    for field in RunRecord.__dataclass_fields__:
        assert f"`{field}`" in page.split("## Run")[1]


def only_corruption(decode, raw):
    # damage can look like another format
    with suppress(CorruptionError, NewerFormatError, OlderFormatError):
        decode(raw)


@pytest.mark.parametrize("name", RECORDS)
def test_random_bytes_raise_corruption_only(name):
    @settings(max_examples=60)
    @given(st.binary(max_size=80))
    @example(b"")
    @example(b"[" * 100_000)
    @example(b"1" * 5_000)
    @example(b"\xff" * 10)
    @example(b"\xed\xa0\x80")
    def check(raw):
        only_corruption(RECORDS[name][1], raw)

    check()


@pytest.mark.parametrize("name", RECORDS)
def test_mutated_records_raise_corruption_only(name):
    valid, decode = RECORDS[name]
    for position in range(len(valid)):
        before, after = valid[:position], valid[position + 1 :]
        for byte in (b"", b"\0", b'"', b"-", b"9", b"[", b"{", b"\x80", b"\xff"):
            only_corruption(decode, before + byte + after)
        only_corruption(decode, before)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", FIELDS)
def test_records_with_fields_of_any_kind_raise_corruption_only(name):
    raw, decode = RECORDS[name]
    fields = json.loads(raw.decode("utf-8", "surrogatepass"))

    @settings(max_examples=80)
    @given(st.sampled_from(sorted(fields)), values)
    def check(field, value):
        other = json.dumps({**fields, field: value})
        only_corruption(decode, other.encode("utf-8", "surrogatepass"))
        left = {name: kept for name, kept in fields.items() if name != field}
        only_corruption(decode, json.dumps(left).encode())

    check()


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e400", "9" * 400])
def test_numbers_that_are_none_raise_corruption(number):
    raw = STORED["commit"].replace(b"1357016400000000", number.encode())
    with pytest.raises(CorruptionError):
        FORMS["commit"].decode(raw)
    with pytest.raises(CorruptionError):
        decode_entry(b"a", encode_value(b"i" * 32, f'["a",1,"","",{number},{{}}]'.encode()))
    if number != "9" * 400:  # a count may be any whole number
        with pytest.raises(CorruptionError):
            decode_range_info(b"z", encode_value(b"i" * 32, f'["61",{number},1]'.encode()))


def test_json_is_the_shortest_and_sorted():
    assert encode_json({"b": [1, 2], "a": "é"}) == '{"a":"é","b":[1,2]}'.encode()
    with pytest.raises(ValueError, match="Out of range"):
        encode_json(float("nan"))
