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
from graveler.model import BranchRecord, Commit, Entry, Move, RangeInfo
from graveler.refs.branches import decode_branch, encode_branch
from graveler.refs.commits import decode_commit, encode_commit
from graveler.refs.epochs import Epoch
from graveler.runs.record import Input, Refusal, RunRecord, decode_run, encode_run
from graveler.runs.records import _TRY
from graveler.runs.state import RunState
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
    stage_entry,
    staged_changes,
    staged_value,
    value_identity,
)

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "kv-layout.md"
WHEN = datetime(2013, 1, 1, 5, tzinfo=UTC)
CHECKSUM = "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
ENTRY = Entry("a/1.csv", "data/x1/1.csv", 3, CHECKSUM, "text/csv", WHEN, {"k": "v"}, computed=True)
BRANCH = BranchRecord(
    "main",
    "1" * 64,
    "t3",
    ("t1", "t2"),
    nonce="n1",
    born="b1",
    moves=(Move(1_357_016_400_000_000, "commit", "1" * 64, "ada"),),
    pages=2,
)
COMMIT = Commit(
    "d10abe136ce8812f191208a01c5b53cb8ad418a50b6f214eb6a45a8f23dd2418",
    "0" * 64,
    ("1" * 64,),
    2,
    "hour 05",
    "ada",
    WHEN,
    {"source": "bts"},
    tokens=("t1",),
    spans=((b"a/1.csv", b"a/9.csv"),),
)
RANGE = RangeInfo(b"\x07" * 32, b"a", b"z", 12, 3_456)
RUN = RunRecord(
    key="k\udc80",
    state=RunState.OPEN,
    attempt=3,
    fence="f",
    branch="run-k-1",
    into="main",
    base="1" * 64,
    created=WHEN,
    opened=WHEN,
    updated=WHEN,
    lease_until=WHEN,
    owners=("a", "b"),
    lease=timedelta(seconds=9.5),
    inputs=(Input("2" * 64, "input/"),),
    refusals=(Refusal(WHEN, "no rows", ("rows",)), Refusal(WHEN, "conflict")),
)

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

DECODERS = {
    "value": decode_value,
    "identity": value_identity,
    "entry": lambda raw: decode_entry(b"a/1.csv", raw),
    "range": lambda raw: decode_range_info(b"z", raw),
    "branch": decode_branch,
    "commit": lambda raw: decode_commit("c", raw),
    "staged": staged_value,
    "json": lambda raw: decode_json(raw, "x"),
    "run": decode_run,
    "try": _TRY.decode,
}
VALID = {
    "value": encode_entry(ENTRY)[1],
    "identity": encode_entry(ENTRY)[1],
    "entry": encode_entry(ENTRY)[1],
    "range": encode_range_info(RANGE),
    "branch": encode_branch(BRANCH),
    "commit": encode_commit(COMMIT),
    "staged": stage_entry(b"a/1.csv", ENTRY),
    "json": encode_json({"a": [1, None, "é"]}),
    "run": encode_run(RUN),
    "try": encode_json({"attempt": 1, "fence": "f", "number": 2}),
}


@given(entries)
def test_an_entry_comes_back(entry):
    identity, raw = encode_entry(entry)
    assert decode_entry(entry.path.encode(), raw) == entry
    assert decode_value(raw)[0] == value_identity(raw) == identity
    staged = stage_entry(entry.path.encode(), entry)
    assert staged_value(staged) == raw


def test_branches_commits_ranges_and_runs_come_back():
    assert decode_branch(encode_branch(BRANCH)) == BRANCH
    fenced = BranchRecord("run-x", "2" * 64, "t", attempt=2, fence="f", hidden=True, nonce="n")
    assert decode_branch(encode_branch(fenced)) == fenced
    assert decode_commit(COMMIT.id, encode_commit(COMMIT)) == COMMIT
    assert decode_range_info(b"z", encode_range_info(RANGE)) == RANGE
    assert decode_run(encode_run(RUN)) == RUN


@given(st.binary(max_size=40), st.binary(max_size=400))
def test_a_value_comes_back_whatever_its_lengths(identity, data):
    raw = encode_value(identity, data)
    assert decode_value(raw) == (identity, data)
    assert value_identity(raw) == identity


def test_staged_writes_are_read_as_changes():
    staged = stage_entry(b"a", ENTRY)
    live, gone = staged_changes([(b"a", staged), (b"b", TOMBSTONE)])
    assert live == (b"a", staged[1:33], encode_entry(ENTRY)[1])
    assert gone == (b"b", None, None)
    assert staged_value(TOMBSTONE) is None


def test_a_staged_write_that_replaces_is_told_from_another():
    plain, replacing = stage_entry(b"a", ENTRY), stage_entry(b"a", ENTRY, replaces=True)
    assert [is_replacement(raw) for raw in (plain, replacing, TOMBSTONE)] == [False, True, False]
    assert staged_value(replacing) == staged_value(plain)
    one, other = staged_changes([(b"a", plain), (b"b", replacing)])
    assert not isinstance(one, Replacement)
    assert isinstance(other, Replacement)
    assert other == (b"b", *one[1:])


def test_the_page_shows_what_is_written():
    page = PAGE.read_text()
    blocks = [block.split("```")[0].strip() for block in page.split("```json\n")[1:]]
    whole = [block for block in blocks if "…" not in block]
    *records, epoch = whole
    assert records == [encode_branch(BRANCH).decode(), encode_commit(COMMIT).decode()]
    assert json.loads(epoch).keys() == {"format", *Epoch.__dataclass_fields__}
    (block,) = [block.split("```")[0] for block in page.split("```hex\n")[1:]]
    digits = " ".join(line[:57].split("  ")[0] for line in block.splitlines())
    assert bytes.fromhex(digits) == stage_entry(b"a/1.csv", ENTRY)
    assert f"commit/{COMMIT.id}" in page
    for field in RunRecord.__dataclass_fields__:
        assert f"`{field}`" in page.split("## Run")[1]


def test_another_order_of_sealed_tokens_is_refused():
    raw = encode_branch(BRANCH).replace(b"oldest-first", b"newest-first")
    with pytest.raises(CorruptionError):
        decode_branch(raw)


def only_corruption(decode, raw):
    # damage can look like another format
    with suppress(CorruptionError, NewerFormatError, OlderFormatError):
        decode(raw)


@pytest.mark.parametrize("name", DECODERS)
def test_random_bytes_raise_corruption_only(name):
    @settings(max_examples=150)
    @given(st.binary(max_size=80))
    @example(b"")
    @example(b"[" * 100_000)
    @example(b"1" * 5_000)
    @example(b"\xff" * 10)
    @example(b"\xed\xa0\x80")
    def check(raw):
        only_corruption(DECODERS[name], raw)

    check()


@pytest.mark.parametrize("name", DECODERS)
def test_mutated_records_raise_corruption_only(name):
    valid = VALID[name]
    for position in range(len(valid)):
        for byte in (0, 0x22, 0x2D, 0x39, 0x5B, 0x7B, 0x80, 0xFF):
            only_corruption(
                DECODERS[name], valid[:position] + bytes((byte,)) + valid[position + 1 :]
            )
        only_corruption(DECODERS[name], valid[:position])
        only_corruption(DECODERS[name], valid[:position] + valid[position + 1 :])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", ["branch", "commit", "run", "try"])
def test_records_with_fields_of_any_kind_raise_corruption_only(name):
    import json

    fields = json.loads(VALID[name].decode("utf-8", "surrogatepass"))

    @settings(max_examples=150)
    @given(st.sampled_from(sorted(fields)), values)
    def check(field, value):
        raw = json.dumps({**fields, field: value}).encode("utf-8", "surrogatepass")
        only_corruption(DECODERS[name], raw)
        left = {other: kept for other, kept in fields.items() if other != field}
        only_corruption(DECODERS[name], json.dumps(left).encode())

    check()


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e400", "9" * 400])
def test_numbers_that_are_none_raise_corruption(number):
    raw = encode_commit(COMMIT).replace(b"1357016400000000", number.encode())
    with pytest.raises(CorruptionError):
        decode_commit("c", raw)
    with pytest.raises(CorruptionError):
        decode_entry(b"a", encode_value(b"i" * 32, f'["a",1,"","",{number},{{}}]'.encode()))
    if number != "9" * 400:  # a count may be any whole number
        with pytest.raises(CorruptionError):
            decode_range_info(b"z", encode_value(b"i" * 32, f'["61",{number},1]'.encode()))


def test_json_is_the_shortest_and_sorted():
    assert encode_json({"b": [1, 2], "a": "é"}) == '{"a":"é","b":[1,2]}'.encode()
    with pytest.raises(ValueError, match="Out of range"):
        encode_json(float("nan"))
