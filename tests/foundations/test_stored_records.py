"""Every stored record keeps its bytes: ``stored_records.txt`` has what earlier versions wrote.

A record that is not in the file, or a change of the file for an existing record, is a change of the
stored format.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graveler.base.records import decode_json, encode_json
from graveler.committed.references import _encode as encode_addresses
from graveler.committed.splitting import DEFAULT, HASH, Splitting
from graveler.errors import CorruptionError
from graveler.gates.named import NamedGate
from graveler.gates.statistics import STATISTICS, ColumnStatistics, Statistics
from graveler.gates.verdicts import VERDICT, Judgement, Verdict
from graveler.gc import files, marks, rules
from graveler.ingest import records as ingest
from graveler.kv.memory import MemoryKVStore
from graveler.lake.catalogue import RepositoryRecord
from graveler.lakefs.state import NOTHING, ImportState
from graveler.model import BranchRecord, Commit, Move, RangeInfo
from graveler.reads import export
from graveler.refs import commits, epochs, moves, pack_rule, settings
from graveler.refs.branches import decode_branch, encode_branch
from graveler.repository.witness import marker
from graveler.repository.witness.known import KNOWN, Known
from graveler.runs import record as runs
from graveler.runs.records import _TRY, _Try
from graveler.runs.state import Publish, RunState
from graveler.runs.steps.environment import StepHandle

STORED = dict(
    line.split(b"\t", 1)
    for line in (Path(__file__).parent / "stored_records.txt").read_bytes().splitlines()
)
WHEN = datetime(2013, 1, 1, 5, tzinfo=UTC)
LATER = WHEN + timedelta(days=1, microseconds=7)
ONE, TWO, THREE = "1" * 64, "2" * 64, "3" * 64
MOVES = (
    Move(1_357_016_400_000_000, "create", ONE, "ada"),
    Move(1_357_016_400_000_001, "commit", TWO, "é"),
)
FAILED = Verdict(
    "rows",
    passed=False,
    severity="error",
    reason="0 rows\udc80",
    commit=ONE,
    seconds=0.25,
    at="2013-01-01T05:00:00Z",
    died=True,
    facts={"rows": 0, "least": None, "share": 1.5},
)
PASSED = Verdict("rows", passed=True, severity="warn")
PUBLISH = Publish(
    TWO, THREE, "main", 1, WHEN, changed=False, verdicts=(FAILED, PASSED), rollback=ONE
)
REFUSAL = runs.Refusal(WHEN, "no rows", ("rows", "schema"))
QUARANTINE = ingest.Quarantine(
    "quarantine-1",
    ("2013-01-01T05:00Z",),
    (ONE, TWO),
    THREE,
    REFUSAL,
    LATER,
    releasing=True,
    released=ONE,
    policy="hold",
    units=("t/",),
    nonce="n5",
)
MARKER = marker.Marker(marker.Owner("lake-1", "uid-1", "flights", "/lake", "s1"), 3, "n3", LATER)
RUN = runs.RunRecord(
    key="hourly é",
    state=RunState.PUBLISHED,
    attempt=3,
    fence="f3",
    branch="run-hourly-1a2b3c4d",
    into="main",
    base=ONE,
    created=WHEN,
    opened=LATER,
    updated=LATER,
    lease_until=LATER,
)
FULL_RUN = replace(
    RUN,
    head=TWO,
    candidate=THREE,
    publishes=(PUBLISH,),
    reason="r",
    verdicts=(FAILED,),
    metadata={"b": "c", "a": "é"},
    forked=2,
    born="b1",
    owner="o",
    owners=("p", "q"),
    lease=timedelta(seconds=9.5),
    lapsed=True,
    ttl=timedelta(days=1),
    on_failure="drop",
    fresh=True,
    inputs=(runs.Input(ONE, "a/"), runs.Input(TWO, "")),
    refusals=(REFUSAL, runs.Refusal(LATER, "c")),
    nonce="n",
)
MARK = marks.Mark(
    "m1",
    marks.MarkState.SWEPT,
    5,
    1.5,
    2.0,
    6,
    {marks.Kind.DATA: marks.Tally(1, 2), marks.Kind.STAGING: marks.Tally(3, 4)},
    {marks.Kind.COMMITS: marks.Tally(5, 6)},
    7,
    ("x",),
    {marks.Kind.RANGES: 1},
    ("t1",),
    8,
    {marks.Kind.RANGES: marks.Tally(9, 1)},
    {},
    own=True,
    nonce="n",
)


class Record(NamedTuple):
    """A record, and its encoding."""

    value: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def of(schema: Any, value: Any) -> Record:
    return Record(value, schema.encode, schema.decode)


def branch(**fields: Any) -> Record:
    return Record(BranchRecord(**fields), encode_branch, decode_branch)


def commit(*fields: Any, **more: Any) -> Record:
    made = Commit("d1", ONE, *fields, **more)
    return Record(made, commits.encode_commit, lambda raw: commits.decode_commit("d1", raw))


def setting(one: Any, value: Any) -> Record:
    return Record(value, lambda v: encode_json(one.encode(v) | {"nonce": "n"}), one.decode)


def gate(made: NamedGate) -> Record:
    return Record(
        made,
        lambda one: encode_json(one.encode()),
        lambda raw: NamedGate.decode(decode_json(raw, "gate")),
    )


def repository(*fields: Any) -> Record:
    made = RepositoryRecord("lake-1", "uid-1", *fields)
    return Record(made, RepositoryRecord.encode, lambda raw: RepositoryRecord.decode(raw, "r"))


def text(value: Any, encode: Callable[[Any], str], decode: Callable[[str], Any]) -> Record:
    return Record(
        value,
        lambda one: encode(one).encode("utf-8", "surrogatepass"),
        lambda raw: decode(raw.decode("utf-8", "surrogatepass")),
    )


RECORDS = {
    "branch": branch(
        name="main",
        commit_id=TWO,
        staging_token="t3",
        sealed_tokens=("t1", "t2"),
        nonce="n1",
        born="b1",
        moves=MOVES,
        pages=2,
    ),
    "branch of a run": branch(
        name="run-x",
        commit_id=TWO,
        staging_token="t",
        attempt=2,
        fence="f",
        hidden=True,
        nonce="n",
        voided=3,
        rewound=4,
        lost=TWO,
    ),
    "commit": commit(
        (TWO, THREE),
        2,
        "hour 05\n",
        "ada",
        WHEN,
        {"source": "bts", "a": "é"},
        tokens=("t1",),
        spans=((b"a/1", b"a/\xff"),),
    ),
    "commit without spans": commit((), 1, "", "", LATER, {}),
    "expired commit": of(commits.EXPIRED, commits.Expired("m1", 1_357_016_400_000_000, gone=True)),
    "epoch": of(epochs._EPOCH, epochs.Epoch(3, "m1", "_graveler/gc/u/m1/", 2, None, "n")),
    "epoch that is decided": of(epochs._EPOCH, epochs.Epoch(3, "m1", "p", 2, 0, "n")),
    "page of moves": Record(MOVES, moves.encode_moves, moves.decode_moves),
    "protection": setting(
        settings.PROTECTION,
        settings.Rules({"main": settings.USUAL, "release-*": ("merge",)}, frozenset({"main", "b"})),
    ),
    "required gates": setting(settings.REQUIRED_GATES, {"main": [{"check": "rows", "later": [1]}]}),
    "places": setting(settings.LINK_PLACES, ("file:///a", "s3://b/")),
    "unsound": setting(settings.UNSOUND, True),
    "changes": setting(settings.LINK_CHANGES, {"file:///a": 7}),
    "packing": setting(pack_rule.PACKING, pack_rule.PackRule(5, ("main", "r-*"))),
    "retention": setting(
        rules.RETENTION,
        rules.Retention(rules.Keep(1.5, None), {"b": rules.Keep(None, 3), "a": rules.Keep(2, 1)}),
    ),
    "adoption": setting(rules.ADOPTION, rules.Adoption(5, 6)),
    "mark": of(marks._MARK, MARK),
    "condemned table": of(files._FILE, files.FileRecord("m1", files.FileState.DELETING)),
    "hour": of(
        ingest.HOUR,
        ingest.HourRecord(
            "2013-01-01T05:00Z",
            (ONE,),
            ("2013-01-01T04:00Z",),
            TWO,
            "b.0",
            THREE,
            {"a": "q"},
            ticked=False,
            nonce="n",
        ),
    ),
    "quarantine": of(ingest.QUARANTINE, QUARANTINE),
    "standing": of(
        ingest.STANDING, ingest.Standing(REFUSAL, QUARANTINE, "main", ("q1",), ONE, "n")
    ),
    "standing of nothing": of(ingest.STANDING, ingest.Standing()),
    "run": Record(RUN, runs.encode_run, runs.decode_run),
    "run with everything": Record(FULL_RUN, runs.encode_run, runs.decode_run),
    "try of a step": of(_TRY, _Try(1, 2, "f", "o", ONE, 3)),
    "run handle": text(
        runs.RunHandle("/lake", "flights", "k", "run-k-1", 2, "f"),
        runs.RunHandle.to_json,
        runs.RunHandle.from_json,
    ),
    "step handle": text(
        StepHandle("s", 2, {"a": "b"}, "f", "o"), StepHandle.to_json, StepHandle.from_text
    ),
    "inputs of a commit": text(
        (runs.Input(ONE, "a/"), runs.Input(TWO, "")), runs.encode_inputs, runs.decode_inputs
    ),
    "verdict": of(VERDICT, FAILED),
    "judgement": Record(
        Judgement(ONE, TWO, "main", "publish", "k", 2, "2013", (FAILED, PASSED), ("rows",)),
        Judgement.encode,
        Judgement.decode,
    ),
    "statistics": of(
        STATISTICS,
        Statistics(1, 2, None, {"a": ColumnStatistics(1, "a", 2.5), "b.c": ColumnStatistics()}),
    ),
    "required gate": gate(NamedGate("rows", {"prefix": "a/", "most": [1]}, {"name": "n"})),
    "required gate of a name": gate(NamedGate("a:b")),
    "repository": repository("s3://b/p", "main", DEFAULT, "s1"),
    "repository with a nonce": repository("", "main", Splitting(HASH, number=7), "s1", "n"),
    "marker": Record(MARKER, marker.encode_marker, lambda raw: marker.decode_marker(raw, "marker")),
    "knowledge of a marker": of(KNOWN, Known(3, 2, "e", "s3://b", LATER, ((2, "n2"), (3, "n3")))),
    "export": of(export._EXPORT, export.Export("flights", ONE, "a/", TWO, 1, 2, 3)),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_keeps_its_bytes(name):
    value, encode, decode = RECORDS[name]
    raw = STORED[name.encode()]
    assert encode(value) == raw
    assert decode(raw) == value


def test_a_repaired_branch_does_not_record_its_loss():
    made = BranchRecord("dev", TWO, "t", lost=ONE)
    assert encode_branch(made) == STORED[b"branch that was repaired"]


def test_the_last_page_of_a_branch_keeps_its_bytes():
    raw = STORED[b"deleted branch"]
    moved = (*MOVES, Move(9, "delete", TWO, "eve"))
    page = {"hidden": True, "moves": moved, "run": True}
    assert encode_json(page) == raw
    life = moves.Life("b1", moved, 2, hidden=True, run=True)
    assert moves._decode_life(b"run-x/b1/deleted.00000002.2", raw) == life


def test_address_lists_and_imports_keep_their_bytes():
    listed = encode_addresses(b"\x07" * 32, [b"data/a", b"data/\xc3\xa9"])
    assert listed == STORED[b"addresses of a range"]
    kv = MemoryKVStore()
    state = ImportState(kv, "u", ["s3://b/"])
    info = RangeInfo(b"\x07" * 32, b"a", b"z", 12, 3_456)
    state.add_range("r1", info)
    state.add_range("r2", NOTHING)
    state.add_metarange("m1", ONE)
    state.flush()
    assert dict(kv.scan("lakefs:u")) == {
        name.removeprefix(b"import "): raw
        for name, raw in STORED.items()
        if name.startswith(b"import ")
    }
    again = ImportState(kv, "u", ["s3://b/"])
    assert again.ranges == {"r1": info, "r2": NOTHING}
    assert again.metaranges == {"m1": ONE}


def test_every_line_of_the_file_is_a_record_of_the_tests():
    others = {"branch that was repaired", "deleted branch", "addresses of a range"}
    named = {name.decode() for name in STORED if not name.startswith(b"import ")}
    assert named == others | set(RECORDS)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("branch", {"commit": 5}, "field 'commit' is 5, expected an id of 64 hexadecimal digits"),
        ("branch", {"sealed_order": "x"}, "field 'sealed_order' is 'x', expected 'oldest-first'"),
        ("branch", {"moves": [[0, 1, ONE, "a"]]}, r"field 'moves\[0\]\[1\]' is 1, expected text"),
        ("commit", {"created": 10**30}, "field 'created' is 1.*, expected a time from 1 to 9800"),
        ("commit", {"metadata": {"a": 1}}, "field 'metadata.a' is 1, expected text"),
        ("run", {"state": "ASLEEP"}, "field 'state' is 'ASLEEP', expected one of"),
        ("run", {"verdicts": [{"gate": "g"}]}, r"field 'verdicts\[0\].passed' is missing"),
        ("run", {"refusals": [5]}, r"field 'refusals\[0\]' is 5, expected an array of 3 items"),
        ("mark", {"freed": {"data": [1]}}, "field 'freed.data' is .1., expected an array of 2"),
        ("standing", {"held": []}, r"field 'held' is \[\], expected an object"),
        ("export", {"files": -1}, "field 'files' is -1, expected a whole number from 0 on"),
    ],
)
def test_damage_is_told_by_record_field_and_value(name, damage, said):
    stored = json.loads(STORED[name.encode()].decode("utf-8", "surrogatepass"))
    with pytest.raises(CorruptionError, match=f"cannot be read: {said}"):
        RECORDS[name].decode(encode_json(stored | damage))
