"""The targets of fuzzing: each decoder with real records of its kind."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from graveler.base.clock import from_unix_us
from graveler.base.records import HEX, decode_json, read_key
from graveler.committed.cache.table import TableKind, check_table
from graveler.committed.claims import decode_claim
from graveler.config import load_config
from graveler.errors import (
    CorruptionError,
    GravelerError,
    InvalidInputError,
    NewerFormatError,
    OlderFormatError,
)
from graveler.gates import Candidate
from graveler.gates.named import NamedGate
from graveler.gates.statistics import STATISTICS
from graveler.gates.verdicts import VERDICT, Judgement
from graveler.gc import files, marks, rules
from graveler.ingest.records import HOUR, QUARANTINE, STANDING
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lake.catalogue import RepositoryRecord
from graveler.refs.branches import decode_branch
from graveler.refs.commits import EXPIRED, Commits
from graveler.refs.dump import read_dump
from graveler.refs.epochs import _EPOCH
from graveler.refs.expression import resolve
from graveler.refs.moves import _decode_life, _tag_line, decode_moves
from graveler.refs.pack_rule import PACKING
from graveler.refs.refs import _commit_id
from graveler.refs.settings import LINK_PLACES, PROTECTION, REQUIRED_GATES
from graveler.repository.witness.known import KNOWN
from graveler.repository.witness.marker import Marker, Owner, decode_marker, encode_marker
from graveler.runs.record import RunHandle, decode_run
from graveler.runs.records import _TRY, _branch_of
from graveler.sstable.reader import TableReader
from graveler.values import (
    decode_entry,
    decode_range_info,
    decode_value,
    encode_value,
    staged_epoch,
    staged_value,
    write_start,
)
from tests.fuzz.lakefs import decoders as foreign_decoders
from tests.fuzz.mutations import damaged_bytes, damaged_json
from tests.fuzz.specimens import build, opened
from tests.harness.hostile import ANSWER, candidate_of, converse, framed, said

Damage = Callable[[bytes, Random], bytes]
STORED = (CorruptionError, NewerFormatError, OlderFormatError)
GIVEN = (InvalidInputError, NewerFormatError, OlderFormatError)


def _either(raw: bytes, random: Random) -> bytes:
    structured = raw.startswith((b"{", b"[")) and random.random() < 0.7
    return (damaged_json if structured else damaged_bytes)(raw, random)


@dataclass(frozen=True)
class Target:
    """One decoder.

    Attributes:
        name: The name in the table.
        seeds: Keys and sound records.
        decode: Returns the content of a key and a record.
        refusals: The errors by which the decoder may refuse.
        damage: Damages a record.
        damages_keys: Whether keys are damaged too.
        covered: Whether an id or a checksum covers every byte, so that no alteration is accepted.
    """

    name: str
    seeds: tuple[tuple[bytes, bytes], ...]
    decode: Callable[[bytes, bytes], Any]
    refusals: tuple[type[GravelerError], ...] = STORED
    damage: Damage = _either
    damages_keys: bool = False
    covered: bool = False


def _within(split: Callable[[bytes], tuple[bytes, bytes]]) -> Damage:
    """Return a damage of the data after a head with correct lengths around it, or of any byte."""

    def damage(raw: bytes, random: Random) -> bytes:
        head, value = split(raw)
        if random.random() < 0.3 or not value:
            return damaged_bytes(raw, random)
        identity, data = decode_value(value)
        return head + encode_value(identity, damaged_bytes(data, random))

    return damage


def _head(staged: bytes) -> int:
    """Return where the value record of a staged write begins."""
    return write_start(staged) + (33 if staged_epoch(staged) is None else 41)


_in_value = _within(lambda raw: (b"", raw))
_in_staged = _within(lambda raw: (raw[: _head(raw)], raw[_head(raw) :]))


def _converse(candidate: Candidate, rest: bytes, _: bytes, raw: bytes) -> Any:
    """Return the answer of a gate whose process sends a message and then `rest`."""
    answer = converse(candidate, said({"begun": True}) + framed(raw) + rest)
    if answer.died:
        raise CorruptionError(answer.reason)
    return answer


def _plain(decode: Callable[[bytes], Any]) -> Callable[[bytes, bytes], Any]:
    return lambda _, raw: decode(raw)


def _staged(key: bytes, raw: bytes) -> Any:
    value = staged_value(raw)
    return None if value is None else decode_entry(key, value)


def _record(key: bytes, raw: bytes) -> Any:
    """Decode a record of a range: a claim or an entry."""
    is_claim = key.startswith((b"=", b"run-"))
    return decode_claim(raw) if is_claim else decode_entry(key, raw)


def _commit(key: bytes, raw: bytes) -> Any:
    kv = MemoryKVStore()
    kv.set("refs:u", key, raw)
    # the id does not cover the generation
    return replace(Commits(kv, "refs:u").get(key.decode().rpartition("/")[2]), generation=1)


_KINDS: dict[str, tuple[str, Callable[[bytes, bytes], Any], bool]] = {
    "repository": (
        "lake|repository/",
        _plain(lambda raw: RepositoryRecord.decode(raw, "repository")),
        False,
    ),
    "branch": ("refs:|branch/", _plain(decode_branch), False),
    "commit": ("refs:|commit/", _commit, False),
    "tag": ("refs:|tag/", _plain(lambda raw: _commit_id("v1", raw)), False),
    "protection": ("refs:|settings/protection", _plain(PROTECTION.decode), False),
    "required gates": ("refs:|settings/gates", _plain(REQUIRED_GATES.decode), False),
    "declared places": ("refs:|settings/links", _plain(LINK_PLACES.decode), False),
    "rule of packing": ("refs:|settings/packing", _plain(PACKING.decode), False),
    "retention": ("refs:|settings/retention", _plain(rules.RETENTION.decode), False),
    "page of moves": ("moves:|main/", _plain(decode_moves), False),
    "deleted branch": ("moves:|dev/", _decode_life, True),
    "line of a tag": ("moves:|tag:", lambda key, raw: (_tag_line(key), decode_moves(raw)), True),
    "run": ("runs:|run/", _plain(decode_run), False),
    "try of a step": ("runs:|step/", _plain(_TRY.decode), False),
    "appointment": ("runs:|due/", lambda key, _: _branch_of(key), True),
    "opening": ("runs:|opened/", lambda key, _: _branch_of(key), True),
    "verdict": (
        "verdicts:|verdict/",
        _plain(VERDICT.decode),
        False,
    ),
    "judgement": ("verdicts:|judged/", _plain(Judgement.decode), False),
    "statistics": (
        "stats:|added/",
        _plain(STATISTICS.decode),
        False,
    ),
    "hour": ("ingest:|hour/", _plain(HOUR.decode), False),
    "standing": ("ingest:|standing/", _plain(STANDING.decode), False),
    "quarantine": ("ingest:|quarantine/", _plain(QUARANTINE.decode), False),
    "mark": ("gc:|mark/", _plain(marks._MARK.decode), False),
    "epoch of sweeps": ("gc:|epoch", _plain(_EPOCH.decode), False),
    "expired commit": ("gc:|commit/", _plain(EXPIRED.decode), False),
    "condemned table": (
        "gc:|file/",
        lambda key, raw: (HEX.read(read_key(key[5:], "key"), "key"), files._FILE.decode(raw)),
        True,
    ),
}


def _records(kv: dict[str, dict[bytes, bytes]], where: str) -> tuple[tuple[bytes, bytes], ...]:
    partition, _, prefix = where.partition("|")
    found = [
        (key, value)
        for name, rows in kv.items()
        if name.startswith(partition)
        for key, value in rows.items()
        if key.startswith(prefix.encode())
    ]
    if not found:
        raise AssertionError(f"the lake has no record {where}")
    return tuple(found)


def _in_dump(raw: bytes, random: Random) -> bytes:
    """Damage one line of a dump, and correct its checksum."""
    lines = raw.splitlines(keepends=True)[:-1]
    at = random.randrange(len(lines))
    lines[at] = damaged_json(lines[at], random) + b"\n"
    digest = sha256(b"".join(lines)).hexdigest()
    return (
        b"".join(lines)
        + json.dumps({"end": {"sha256": digest}}, separators=(",", ":")).encode()
        + b"\n"
    )


def _tables(objects: Any) -> Iterator[Target]:
    files_of = {
        kind: [
            (info.key.rpartition("/")[2].encode(), objects.get(info.key))
            for info in objects.list("_graveler/")
            if info.key.count("/") == 1
            and TableReader(objects.get(info.key)).user_properties["type"] == kind.value
        ]
        for kind in TableKind
    }
    for kind, decode in (
        (TableKind.RANGE, _record),
        (TableKind.METARANGE, decode_range_info),
    ):

        def table(key: bytes, raw: bytes, kind: Any = kind, decode: Any = decode) -> Any:
            reader = TableReader(raw, name="table")
            check_table(reader, bytes.fromhex(key.decode()), kind)
            return [decode(path, value) for path, value in reader.items()]

        yield Target(kind.value, tuple(files_of[kind]), table, damage=damaged_bytes, covered=True)
        values = tuple(TableReader(files_of[kind][0][1]).items())
        yield Target(f"value in a {kind}", values, decode, damage=_in_value, damages_keys=True)


def _given(folder: Path, refs: Any, handle: str) -> Iterator[Target]:
    def config(_: bytes, raw: bytes) -> Any:
        (folder / "graveler.toml").write_bytes(raw)
        return load_config(folder)

    expressions = [b"main", b"main~2^1", b"main@{2}", b"main@{2026-01-01T00:01Z}", b"v1", b"main@"]
    yield Target(
        "ref expression",
        tuple((b"", text) for text in expressions),
        lambda _, raw: resolve(refs, raw.decode("utf-8", "surrogateescape")),
        refusals=(GravelerError,),
        damage=damaged_bytes,
    )
    toml = (
        b'format = 1\n[kv]\nuri = "sqlite://kv.sqlite3"\n[storage]\nuri = "s3://b/p"\n[s3]\n'
        b'region = "eu"\npath_style = true\n[cache]\nmax_bytes = 12\n[splitting]\nraggedness = 7\n'
    )
    yield Target("graveler.toml", ((b"", toml),), config, refusals=GIVEN, damage=damaged_bytes)
    yield Target(
        "run handle",
        ((b"", handle.encode()),),
        lambda _, raw: RunHandle.from_json(raw.decode("utf-8", "surrogateescape")),
        refusals=GIVEN,
    )


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="graveler-fuzz-")


@cache
def targets() -> tuple[Target, ...]:
    """Return every decoder, with records of a lake built for them."""
    world = build()
    kv = world.kv.snapshot()
    lake = world.open()
    repository = opened(lake)
    objects = repository.stores.objects
    folder = Path(_folder().name)
    made = [
        Target(
            name,
            _records(kv, where),
            decode,
            damages_keys=keys,
            covered=name == "commit",
        )
        for name, (where, decode, keys) in _KINDS.items()
    ]
    made.append(
        Target(
            "staged write", _records(kv, "staging:|"), _staged, damage=_in_staged, damages_keys=True
        )
    )
    known = b'{"acked":2,"at":1357016400000000,"count":3,"etag":"1","issued":[[3,"c"]],"place":"mem://a"}'
    made.append(Target("witness", ((b"", known),), _plain(KNOWN.decode)))
    marker = encode_marker(Marker(Owner("a", "b", "flights", "lake"), 3, "c", from_unix_us(0)))
    made.append(Target("marker", ((b"", marker),), _plain(lambda raw: decode_marker(raw, "m"))))
    gate = b'{"check":"rows","parameters":{"prefix":"out/"},"options":{"name":"n"}}'
    made.append(
        Target(
            "required gate",
            ((b"", gate),),
            _plain(lambda raw: NamedGate.decode(decode_json(raw, "gate"))),
        )
    )
    made += _tables(objects)
    made += [
        Target(name, seeds, decode, damage=damaged_bytes, covered=covered)
        for name, seeds, decode, covered in foreign_decoders()
    ]
    asked = candidate_of(lake.create_repository("gated"))
    question = {"ask": ["scan", "candidate", b"s".hex(), b"s".hex()]}
    for name, message, rest in (
        ("gate's question", question, said({"answer": ANSWER})),
        ("gate's answer", {"answer": ANSWER}, b""),
    ):
        seeds = ((b"", json.dumps(message).encode()),)
        made.append(Target(name, seeds, partial(_converse, asked, rest)))

    def dump(_: bytes, raw: bytes) -> Any:
        (folder / "dump").write_bytes(raw)
        return read_dump(folder / "dump")

    repository.dump_refs(folder / "dump")
    sound = ((b"", (folder / "dump").read_bytes()),)
    dumped = Target("dump", sound, dump, (*STORED, InvalidInputError), damaged_bytes, covered=True)
    made += (dumped, replace(dumped, name="dump, checksum right", damage=_in_dump, covered=False))
    handle = repository.runs.list(live=True)
    record = next(iter(handle))
    text = RunHandle.of(record, location="/lake", repository="flights").to_json()
    made += _given(folder, repository.stores.refs, text)
    return tuple(made)
