from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache.range_cache import MetarangeMemory
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.tree import tree_of
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
    tree = forest.tree("a b | c=2")
    infos = metarange.read(forest.fresh(), tree)
    ids = [record_id(info.max_key, encode_range_info(info)) for info in infos]
    assert tree == range_id(ids).hex()
    assert [(i.min_key, i.max_key, i.count) for i in infos] == [(b"a", b"b", 2), (b"c", b"c", 1)]


def test_a_get_opens_the_one_range_that_can_hold_the_key():
    forest = Forest()
    tree = forest.tree("a c=3 | e=5")
    held = {"a": "1", "c": "3", "e": "5"}
    for key in "0abcdef":
        store = forest.fresh()
        assert text_of(metarange.get(store, tree, key.encode())) == held.get(key)
        assert store.stats.ranges_read == (key in "abce")


def test_a_scan_opens_ranges_as_it_reaches_them():
    forest = Forest()
    tree = forest.tree("a b | c d | e f | g h")
    store = forest.fresh()
    walk = metarange.scan(store, tree, b"d", b"g")
    assert store.stats.ranges_read == 0
    assert next(walk)[0] == b"d"
    assert store.stats.ranges_read == 1
    assert [key for key, _ in walk] == [b"e", b"f"]
    assert store.stats.ranges_read == 2


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
    memory = MetarangeMemory(max_trees=2)
    for name in ("one", "two", "three"):
        memory.put(name, infos)
    assert [memory.get(name) for name in ("one", "two", "three")] == [None, infos, infos]


def test_the_end_of_a_prefix_is_the_first_key_behind_it():
    ends = {b"": None, b"a": b"b", b"a\xff": b"b", b"\xff\xff": None, b"a/": b"a0"}
    assert {prefix: metarange.prefix_end(prefix) for prefix in ends} == ends


KEYS = st.text("ab\xff", min_size=1, max_size=3)


@settings(max_examples=40)
@given(st.sets(KEYS), KEYS, st.none() | KEYS)
def test_a_scan_yields_what_lies_between(keys, start, stop):
    store = new_store()
    ordered = sorted(key.encode() for key in keys)
    records = [record(key.decode()) for key in ordered]
    tree = apply(store, EMPTY_METARANGE, records, CRUMBS).metarange
    first, last = start.encode(), None if stop is None else stop.encode()
    assert [key for key, _ in metarange.scan(store, tree, first, last)] == [
        key for key in ordered if key >= first and (last is None or key < last)
    ]
    for key, _, value in records:
        assert metarange.get(store, tree, key) == value
