from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache.range_cache import MetarangeMemory
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.tree import tree_of
from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.values import encode_range_info, range_id, record_id
from tests.committed.trees import CRUMBS, Forest, new_store, record, text_of


def test_the_empty_tree_has_an_id_and_no_file():
    store = new_store()
    assert metarange.write(store, ()) == EMPTY_METARANGE == sha256(b"").hexdigest()
    assert metarange.read(store, EMPTY_METARANGE) == ()
    assert metarange.get(store, EMPTY_METARANGE, b"a") is None
    assert list(metarange.scan(store, EMPTY_METARANGE)) == []
    assert list(store.objects.list()) == []


def test_a_tree_is_named_by_last_keys_and_range_ids():
    forest = Forest()
    tree = forest.tree("a b", "c=2")
    infos = metarange.read(forest.fresh(), tree)
    assert (
        tree == range_id(record_id(info.max_key, encode_range_info(info)) for info in infos).hex()
    )
    assert [(i.min_key, i.max_key, i.count) for i in infos] == [(b"a", b"b", 2), (b"c", b"c", 1)]


@pytest.mark.parametrize(
    ("key", "text", "opened"),
    [
        ("a", "1", 1),
        ("b", None, 1),
        ("c", "3", 1),
        ("0", None, 0),
        ("d", None, 0),
        ("e", "5", 1),
        ("f", None, 0),
    ],
)
def test_a_get_opens_the_one_range_that_can_hold_the_key(key, text, opened):
    forest = Forest()
    tree = forest.tree("a c=3", "e=5")
    store = forest.fresh()
    assert text_of(metarange.get(store, tree, key.encode())) == text
    assert store.stats.ranges_read == opened


def test_a_scan_opens_ranges_as_it_reaches_them():
    forest = Forest()
    tree = forest.tree("a b", "c d", "e f", "g h")
    store = forest.fresh()
    walk = metarange.scan(store, tree, b"d", b"g")
    assert store.stats.ranges_read == 0
    assert next(walk)[0] == b"d"
    assert store.stats.ranges_read == 1
    assert [key for key, _ in walk] == [b"e", b"f"]
    assert store.stats.ranges_read == 2


def test_a_metarange_whose_ranges_overlap_is_damaged():
    forest = Forest()
    first, second = (
        metarange.read(forest.fresh(), forest.tree(line))[0] for line in ("a c", "b d")
    )
    tree = metarange.write(forest.fresh(), [first, second])
    with pytest.raises(CorruptionError, match="b'd' after b'c'"):
        list(metarange.read(forest.fresh(), tree))


def test_a_decoded_metarange_is_read_from_memory():
    forest = Forest()
    tree = forest.tree("a b", "c d")
    store = forest.fresh()
    assert metarange.read(store, tree) is metarange.read(store, tree)
    assert (store.stats.metaranges_read, store.stats.fetched) == (2, 1)


def test_decoded_metaranges_are_bounded_by_their_ranges():
    memory = MetarangeMemory(max_ranges=10)
    infos, large = (
        tree_of([RangeInfo(bytes(32), bytes([n]), bytes([n]), 1, 1) for n in range(1, count)])
        for count in (5, 13)
    )
    for name in ("one", "two"):
        memory.put(name, infos)
    assert memory.get("one") == infos
    memory.put("three", infos)
    assert memory.get("two") is None
    assert memory.get("one") == memory.get("three") == infos
    memory.put("large", large)
    assert [memory.get(name) for name in ("one", "three", "large")] == [None, None, None]


def test_decoded_metaranges_are_bounded_in_number():
    memory = MetarangeMemory(max_trees=2)
    tree = tree_of([RangeInfo(bytes(32), b"a", b"b", 1, 1)])
    for name in ("one", "two", "three"):
        memory.put(name, tree)
    assert [memory.get(name) for name in ("one", "two", "three")] == [None, tree, tree]


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"", None), (b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"a/", b"a0")],
)
def test_the_end_of_a_prefix_is_the_first_key_behind_it(prefix, end):
    assert metarange.prefix_end(prefix) == end


KEYS = st.text("ab\xff", min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.sets(KEYS), KEYS, st.none() | KEYS)
def test_a_scan_yields_what_lies_between(keys, start, stop):
    store = new_store()
    ordered = sorted(keys, key=str.encode)
    tree = apply(store, EMPTY_METARANGE, map(record, ordered), CRUMBS).metarange
    found = metarange.scan(store, tree, start.encode(), None if stop is None else stop.encode())
    assert [key.decode() for key, _ in found] == [
        key
        for key in ordered
        if key.encode() >= start.encode() and (stop is None or key.encode() < stop.encode())
    ]
    for key in ordered:
        assert metarange.get(store, tree, key.encode()) == record(key)[2]
