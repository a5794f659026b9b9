"""Tables with correct checksums, stored under the id of other contents."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import TableKind, table_properties
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.errors import CorruptionError
from graveler.model import Entry, RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.sstable.reader import TableReader
from graveler.sstable.writer import TableWriter
from graveler.values import (
    decode_entry,
    decode_range_info,
    decode_value,
    encode_entry,
    encode_range_info,
    encode_value,
    record_id,
    value_identity,
)
from tests.committed.trees import problems_of

SPLITTING = Splitting(max_bytes=1_500, raggedness=1 << 62)
MUTANTS = 500


@pytest.fixture
def objects():
    """A tree of three ranges."""
    made = MemoryStore()
    apply(store_over(made), EMPTY_METARANGE, records(), SPLITTING)
    return made


@pytest.fixture
def tree():
    return apply(store_over(MemoryStore()), EMPTY_METARANGE, records(), SPLITTING).metarange


def records():
    for number in range(24):
        key = f"a/{number:02}.csv"
        entry = Entry(key, f"data/{number}", 3, f"sha256:{number:064x}", computed=True)
        value = encode_entry(entry)[1]
        yield key.encode(), record_id(key.encode(), value), value


def store_over(objects):
    return RangeStore(objects, RangeCache(None, 1 << 24))


def items(objects, key):
    return list(TableReader(objects.get(key)).items())


def rewrite(objects, folder, key, kind, altered):
    """Put a valid table of these records at the key, which is the id of other records."""
    folder.mkdir(exist_ok=True)
    path = folder / "table"
    path.unlink(missing_ok=True)
    with TableWriter(path) as table:
        for name, value in altered:
            table.records[name] = value
        identifier = bytes.fromhex(key.rpartition("/")[2])
        size = sum(len(name) + len(value) for name, value in altered)
        info = RangeInfo(identifier, altered[0][0], altered[-1][0], len(altered), size)
        table.finish(identifier, table_properties(kind, info))
    objects.put(key, path.read_bytes())


def read_all(objects, tree):
    return list(metarange.scan(store_over(objects), tree))


def problems(objects, tree):
    return [problem.kind for problem in problems_of(store_over(objects), tree)]


FIELDS = {
    "another object": {"address": "data/1"},
    "another size": {"size": 4},
    "another checksum": {"checksum": f"sha256:{1:064x}"},
    "a declared checksum": {"computed": False},
    "another type": {"content_type": "text/plain"},
    "other metadata": {"metadata": {"k": "v"}},
    "a version": {"version": "etag:1"},
}


@pytest.mark.parametrize("honest", [True, False], ids=["its identity", "the old identity"])
@pytest.mark.parametrize("fields", FIELDS.values(), ids=list(FIELDS))
def test_an_entry_that_says_something_else_is_refused(objects, tree, tmp_path, fields, honest):
    info = metarange.read(store_over(objects), tree)[0]
    key = f"_graveler/{info.id.hex()}"
    (name, value), *rest = items(objects, key)
    entry = replace(decode_entry(name, value), **fields)
    _, changed = encode_entry(entry)
    if not honest:
        changed = encode_value(value_identity(value), decode_value(changed)[1])
    rewrite(objects, tmp_path / "t", key, TableKind.RANGE, [(name, changed), *rest])
    with pytest.raises(CorruptionError, match=info.id.hex()):
        read_all(objects, tree)
    assert problems(objects, tree) == [TableKind.RANGE]


@pytest.mark.parametrize(
    "fields",
    [{"min_key": b"a/00.cs"}, {"min_key": b"a/00.csv\0"}, {"count": 1}, {"size": 1}],
    ids=["starts before", "starts after", "count", "size"],
)
def test_a_metarange_that_contradicts_a_range_is_refused(objects, tree, tmp_path, fields):
    key = f"_graveler/{tree}"
    (name, value), *rest = items(objects, key)
    changed = encode_range_info(replace(decode_range_info(name, value), **fields))
    rewrite(objects, tmp_path / "t", key, TableKind.METARANGE, [(name, changed), *rest])
    with pytest.raises(CorruptionError, match=tree):
        read_all(objects, tree)
    assert problems(objects, tree) == [TableKind.METARANGE]


def test_a_range_that_is_not_as_its_metarange_says_is_refused(objects, tree):
    store = store_over(objects)
    first, *rest = metarange.read(store, tree)
    for fields in ({"count": 1}, {"min_key": b"a/00"}):
        wrong = metarange.write(store, [replace(first, **fields), *rest])
        with pytest.raises(
            CorruptionError, match=f"range {first.id.hex()} is not as its metarange"
        ):
            read_all(objects, wrong)
        with pytest.raises(CorruptionError, match="is not as its metarange"):
            metarange.get(store, wrong, b"a/01.csv")
        assert problems(objects, wrong) == [TableKind.RANGE]


def mutant(random, rows):
    """Return a name for the change, and records that differ from `rows`, in key order."""
    at = random.randrange(len(rows))
    key, value = rows[at]
    kind = random.choice(["byte", "cut", "grow", "key", "drop", "double", "swap", "insert"])
    place = random.randrange(len(value))
    if kind == "byte":
        flipped = value[place] ^ random.randrange(1, 256)
        rows[at] = key, value[:place] + bytes([flipped]) + value[place + 1 :]
    elif kind == "cut":
        rows[at] = key, value[:place]
    elif kind == "grow":
        rows[at] = key, value[:place] + bytes([random.randrange(256)]) + value[place:]
    elif kind == "key":
        rows[at] = key + b"x", value
    elif kind == "drop":
        del rows[at]
    elif kind == "double":
        rows.insert(at + 1, (key + b"\0", value))
    elif kind == "swap":
        other = (at + 1) % len(rows)
        rows[at], rows[other] = (key, rows[other][1]), (rows[other][0], value)
    else:
        rows.insert(0, (b"a", value))
    return kind, sorted(rows)


@pytest.mark.parametrize(
    ("kind", "by_digest"),
    [(TableKind.RANGE, False), (TableKind.RANGE, True), (TableKind.METARANGE, False)],
)
def test_no_altered_table_is_accepted(objects, tree, tmp_path, kind, by_digest):
    random = Random(2160)
    done: Counter[str] = Counter()
    infos = metarange.read(store_over(objects), tree)
    ids = [info.id.hex() for info in infos] if kind is TableKind.RANGE else [tree]
    for _ in range(MUTANTS):
        identifier = random.choice(ids)
        key = f"_graveler/{identifier}"
        before = objects.get(key)
        rows = items(objects, key)
        what, altered = mutant(random, list(rows))
        if altered == rows:
            continue
        rewrite(objects, tmp_path / "t", key, kind, altered)
        with pytest.raises(CorruptionError, match=identifier):
            if by_digest:
                store_over(objects).open_range(infos[ids.index(identifier)])
            else:
                store_over(objects).open(bytes.fromhex(identifier), kind)
        done[what] += 1
        objects.put(key, before)
    assert sum(done.values()) > MUTANTS * 0.9
    assert min(done.values()) > MUTANTS // 20
    assert len(read_all(objects, tree)) == 24
