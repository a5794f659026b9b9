"""Stored tables that are damaged, missing, or hold other contents than their id says."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache.table import TableKind, table_properties
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import Splitting
from graveler.committed.verify import Problem, verify_range
from graveler.errors import CorruptionError
from graveler.model import Entry, RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.sstable.reader import TableReader
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
from tests.committed.cache_files import one_range, store_over
from tests.committed.trees import Forest, problems_of, record
from tests.sstable.tables import written

SPLITTING = Splitting(max_bytes=1_500, raggedness=1 << 62)
MUTANTS = 120


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


def items(objects, key):
    return list(TableReader(objects.get(key)).items())


def rewrite(objects, key, kind, altered):
    """Put a valid table of these records at the key, which is the id of other records."""
    identifier = bytes.fromhex(key.rpartition("/")[2])
    size = sum(len(name) + len(value) for name, value in altered)
    info = RangeInfo(identifier, altered[0][0], altered[-1][0], len(altered), size)
    objects.put(key, written(altered, identity=identifier, properties=table_properties(kind, info)))


def read_all(objects, tree):
    return list(metarange.scan(store_over(objects), tree))


def problems(objects, tree):
    return [(one.kind, one.id) for one in problems_of(store_over(objects), tree)]


def test_a_sound_tree_has_no_problems(objects, tree):
    assert problems(objects, tree) == problems(objects, EMPTY_METARANGE) == []


def test_a_damaged_and_a_missing_table_are_named(objects, tree):
    infos = metarange.read(store_over(objects), tree)
    first, second, _ = (info.id.hex() for info in infos)
    body = objects.get(f"_graveler/{first}")
    objects.put(f"_graveler/{first}", body[:40] + bytes([body[40] ^ 1]) + body[41:])
    objects.delete(f"_graveler/{second}")
    assert problems(objects, tree) == [(TableKind.RANGE, first), (TableKind.RANGE, second)]
    with pytest.raises(CorruptionError, match="missing"):
        metarange.get(store_over(objects), tree, infos[1].min_key)
    objects.put(f"_graveler/{tree}", objects.get(f"_graveler/{tree}")[:-1])
    assert problems(objects, tree) == [(TableKind.METARANGE, tree)]
    objects.delete(f"_graveler/{tree}")
    assert problems(objects, tree) == [(TableKind.METARANGE, tree)]


def test_the_store_is_looked_at_and_not_the_cache(objects, tree):
    store = store_over(objects)
    info = metarange.read(store, tree)[0]
    assert store.open(info.id).get(b"a/01.csv")
    objects.put(store.key(info.id), b"rubbish")
    problems: list[Problem] = []
    assert verify_range(store, info, problems) is None
    assert [problem.id for problem in problems] == [info.id.hex()]


def test_a_table_of_another_id_or_kind_is_refused(objects, tree):
    store = store_over(objects)
    first, second, _ = metarange.read(store, tree)
    objects.put(store.key(first.id), objects.get(store.key(second.id)))
    with pytest.raises(CorruptionError, match=first.id.hex()):
        store.open(first.id)
    with pytest.raises(CorruptionError, match="type"):
        store_over(objects).open(bytes.fromhex(tree))
    assert store_over(objects).open(bytes.fromhex(tree), TableKind.METARANGE).count == 3


FIELDS = {
    "another object": {"address": "data/1"},
    "a declared checksum": {"computed": False},
    "other metadata": {"metadata": {"k": "v"}},
}


@pytest.mark.parametrize("honest", [True, False], ids=["its identity", "the old identity"])
@pytest.mark.parametrize("fields", FIELDS.values(), ids=list(FIELDS))
def test_an_entry_that_says_something_else_is_refused(objects, tree, fields, honest):
    info = metarange.read(store_over(objects), tree)[0]
    key = f"_graveler/{info.id.hex()}"
    (name, value), *rest = items(objects, key)
    entry = replace(decode_entry(name, value), **fields)
    _, changed = encode_entry(entry)
    if not honest:
        changed = encode_value(value_identity(value), decode_value(changed)[1])
    rewrite(objects, key, TableKind.RANGE, [(name, changed), *rest])
    with pytest.raises(CorruptionError, match=info.id.hex()):
        read_all(objects, tree)
    assert problems(objects, tree) == [(TableKind.RANGE, info.id.hex())]


@pytest.mark.parametrize(
    "fields",
    [{"min_key": b"a/00.cs"}, {"min_key": b"a/00.csv\0"}, {"count": 1}, {"size": 1}],
    ids=["starts before", "starts after", "count", "size"],
)
def test_a_metarange_that_contradicts_a_range_is_refused(objects, tree, fields):
    key = f"_graveler/{tree}"
    (name, value), *rest = items(objects, key)
    changed = encode_range_info(replace(decode_range_info(name, value), **fields))
    rewrite(objects, key, TableKind.METARANGE, [(name, changed), *rest])
    with pytest.raises(CorruptionError, match=tree):
        read_all(objects, tree)
    assert problems(objects, tree) == [(TableKind.METARANGE, tree)]


@pytest.mark.parametrize(
    ("fields", "refusal", "problem"),
    [
        ({"count": 1}, "is not as its metarange", "its metarange says 1"),
        ({"min_key": b"a/0"}, "is not as its metarange", "min_key"),
        ({"digest": bytes(32)}, r"holds \d+ records of digest", "its metarange says 0000"),
    ],
    ids=["count", "first key", "digest"],
)
def test_a_range_is_not_as_its_metarange_says(objects, tree, fields, refusal, problem):
    store = store_over(objects)
    first, *rest = metarange.read(store, tree)
    wrong = metarange.write(store, [replace(first, **fields), *rest])
    with pytest.raises(CorruptionError, match=f"{first.id.hex()} {refusal}"):
        read_all(objects, wrong)
    with pytest.raises(CorruptionError, match=refusal):
        metarange.get(store_over(objects), wrong, b"a/01.csv")
    (found,) = problems_of(store_over(objects), wrong)
    assert (found.kind, found.id) == (TableKind.RANGE, first.id.hex())
    assert problem in found.message


def test_ranges_that_overlap_are_damage_of_the_metarange():
    forest = Forest()
    first, third = metarange.read(forest.fresh(), forest.tree("a c | e g"))
    (second,) = metarange.read(forest.fresh(), forest.tree("b d"))
    tree = metarange.write(forest.fresh(), [first, second, third])
    with pytest.raises(CorruptionError, match="b'd' after b'c'"):
        list(metarange.read(forest.fresh(), tree))
    (problem,) = problems_of(forest.fresh(), tree)
    assert (problem.kind, problem.id) == (TableKind.METARANGE, tree)
    assert "b'c'" in problem.message


def test_a_flipped_byte_anywhere_is_found_or_harmless():
    objects, info = one_range()
    key = f"_graveler/{info.id.hex()}"
    good = objects.get(key)
    for at in range(0, len(good), 7):
        objects.put(key, good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        try:
            records = store_over(objects).open(info.id).records()
        except CorruptionError:
            continue
        assert records == [record("a"), record("b"), record("c")], at


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
def test_no_altered_table_is_accepted(objects, tree, kind, by_digest):
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
        rewrite(objects, key, kind, altered)
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
