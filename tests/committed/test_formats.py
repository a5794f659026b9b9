"""The worked examples of docs/formats/range.md and metarange.md, computed."""

import struct
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import TableKind
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.model import Entry
from graveler.objects.memory import MemoryStore
from graveler.sstable.reader import TableReader
from graveler.values import ENTRY_HEADER, decode_value, encode_entry, entry_identity, record_id
from tests.committed.trees import rows_of

DOCS = Path(__file__).parents[2] / "docs" / "formats"
ENTRIES = [
    Entry(
        path="a/1.csv",
        address="data/x1/1.csv",
        size=3,
        checksum="sha256:" + sha256(b"one").hexdigest(),
        content_type="text/csv",
        mtime=datetime(2013, 1, 1, 5, tzinfo=UTC),
        computed=True,
    ),
    Entry(
        path="a/2.csv",
        address="data/x1/2.csv",
        size=3,
        checksum="sha256:" + sha256(b"two").hexdigest(),
        metadata={"k": "v"},
        computed=True,
    ),
    Entry(path="b/3.csv", address="s3://bucket/3.csv", size=0, version='etag:"1"'),
]
# the first range ends after a/2.csv because two records exceed 300 bytes
SPLITTING = Splitting(max_bytes=300, raggedness=1 << 62)


def example(folder=None):
    store = RangeStore(MemoryStore(), RangeCache(folder, 1 << 20))
    records = []
    for entry in ENTRIES:
        value = encode_entry(entry)[1]
        key = entry.path.encode()
        records.append((key, record_id(key, value), value))
    return store, records, apply(store, EMPTY_METARANGE, records, SPLITTING).metarange


def chained(*parts: bytes) -> str:
    """Return h(h(part) ‖ …) in hex, by the formula of the page and not by graveler."""
    return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def assert_documented(page: str, expected: list[str]) -> None:
    written = lines((DOCS / page).read_text())
    assert [line for line in expected if line not in written] == []


def test_the_example_of_a_range_is_right():
    store, records, tree = example()
    first = metarange.read(store, tree)[0]
    expected = []
    for number, (entry, (key, _, value)) in enumerate(
        zip(ENTRIES[:2], records[:2], strict=True), 1
    ):
        data = decode_value(value)[1]
        expected += [
            f"key {number}        {key.decode()}",
            f"identity {number}   {entry_identity(entry).hex()}",
            f"value {number}      {value[:1].hex()} identity {value[33 : -len(data)].hex(' ')}",
            f"             {data[: ENTRY_HEADER.size].hex(' ')}",
            f"             {data[ENTRY_HEADER.size :].decode()}",
            f"record id {number}  {chained(key, value)}",
        ]
    expected.append(f"range id     {first.id.hex()}")
    body = store.objects.get(f"_graveler/{first.id.hex()}")
    for name, text in TableReader(body).user_properties.items():
        expected.append(f"{name:<12} {text}")
    assert len(expected) == 19
    assert_documented("range.md", expected)


def test_the_example_of_a_metarange_is_right():
    store, _, tree = example()
    infos = metarange.read(store, tree)
    table = store.open(bytes.fromhex(tree), TableKind.METARANGE)
    expected = []
    for number, (info, (key, value)) in enumerate(zip(infos, rows_of(table), strict=True), 1):
        expected += [
            f"key {number}         {key.decode()}",
            f"range id {number}    {info.id.hex()}",
            f"value {number}       {value[:1].hex()} range id {value[33:34].hex()}",
            f"              {value[34:42].hex()} {value[42:50].hex()} {value[50:51].hex()}",
            f"              {value[51:83].hex()}",
            f"              {value[83:115].hex()}",
            f"              {value[115:].hex()}",
            f"record id {number}   {chained(key, value)}",
        ]
    expected.append(f"metarange id  {tree}")
    body = store.objects.get(f"_graveler/{tree}")
    for name, text in TableReader(body).user_properties.items():
        expected.append(f"{name:<13} {text}")
    assert len(expected) == 23
    assert_documented("metarange.md", expected)
    assert EMPTY_METARANGE in (DOCS / "metarange.md").read_text()


def test_the_example_of_a_digest_is_right():
    store, records, tree = example()
    parts = [part for key, _, value in records[:2] for part in (key, value)]
    hashed = b"".join(parts) + struct.pack("<4IQ", *map(len, parts), 2)
    digest = sha256(hashed).hexdigest()
    assert metarange.read(store, tree)[0].digest.hex() == digest
    expected = [
        f"lengths       {' '.join(struct.pack('<I', len(part)).hex() for part in parts)}",
        f"records       {struct.pack('<Q', 2).hex()}",
        f"hashed        {len(hashed)} bytes",
        f"digest        {digest}",
    ]
    assert_documented("metarange.md", expected)
