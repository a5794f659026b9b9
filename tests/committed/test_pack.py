"""A packed tree has the ranges that a builder makes of its records after a hard break."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.diff import same_records
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.pack import Packer, badly_cut
from graveler.committed.splitting import HASH, Splitting
from graveler.errors import BackendUnavailableError
from tests.committed.drawing import SPLITTINGS, STATES, assert_sound, grown
from tests.committed.trees import CRUMBS, Forest, contents, new_store, record

LISTS = st.lists(STATES, min_size=1, max_size=4)


def hourly(store, hours, splitting, files=8):
    tree = EMPTY_METARANGE
    for hour in range(hours):
        keys = [f"in/{hour // 24:03d}/{hour % 24:02d}/{part:03d}" for part in range(files)]
        tree = apply(store, tree, map(record, keys), splitting).metarange
    return tree


@settings(max_examples=60)
@given(LISTS, SPLITTINGS)
def test_a_packed_tree_is_that_of_one_commit_of_its_records(states, splitting):
    store = new_store()
    tree = grown(store, states, splitting)
    packed = Packer(store, splitting).pack(tree)
    fresh = grown(store, states[-1:], splitting)
    assert metarange.read(store, packed.metarange) == metarange.read(store, fresh)
    assert_sound(store, packed.metarange, states[-1], splitting)
    assert same_records(store, tree, packed.metarange)
    again = Packer(store, splitting).pack(packed.metarange)
    assert (again.metarange, again.before, again.left) == (packed.metarange, 0, 0)


@settings(max_examples=30)
@given(LISTS, SPLITTINGS, SPLITTINGS)
def test_a_tree_of_another_policy_is_packed_whole(states, former, splitting):
    store = new_store()
    tree = grown(store, states, former)
    packed = Packer(store, splitting, everything=True).pack(tree)
    fresh = grown(store, states[-1:], splitting)
    assert metarange.read(store, packed.metarange) == metarange.read(store, fresh)


@settings(max_examples=30)
@given(LISTS, SPLITTINGS, st.integers(1, 1000))
def test_packs_with_a_limit_come_to_the_same_end(states, splitting, limit):
    store = new_store()
    tree = grown(store, states, splitting)
    whole = Packer(store, splitting).pack(tree).metarange
    for _ in range(100):
        packed = Packer(store, splitting, limit=limit).pack(tree)
        assert contents(store, packed.metarange) == states[-1]
        if packed.metarange == tree:
            break
        tree = packed.metarange
    assert metarange.read(store, tree) == metarange.read(store, whole)


@settings(max_examples=30)
@given(LISTS, LISTS, SPLITTINGS)
def test_a_packer_of_trees_that_move_packs_as_a_new_one(states, more, splitting):
    store = new_store()
    packer = Packer(store, splitting)
    for state in more:
        tree = grown(store, states, splitting)
        expected = Packer(new_store(store.objects), splitting).pack(tree)
        assert packer.pack(tree) == expected
        states = [*states, state]


def test_what_was_packed_before_the_tree_grew_is_not_read_again():
    store, splitting = new_store(), Splitting(HASH, max_bytes=4_000, raggedness=50)
    tree = hourly(store, 60, splitting, files=1)
    # scattered removals leave ranges that the policy would not cut there
    gone = [(f"in/000/{hour:02d}/000".encode(), None, None) for hour in range(0, 24, 5)]
    tree = apply(store, tree, gone, splitting).metarange
    packer = Packer(store, splitting)
    first = packer.pack(tree)
    assert first.before > 0
    grown = apply(store, tree, [record("zz")], splitting).metarange
    read = store.stats.ranges_read
    packer.pack(grown)
    assert store.stats.ranges_read - read <= 3


def test_a_range_larger_than_the_policy_allows_is_badly_cut():
    store = new_store()
    large = Splitting(HASH, max_bytes=1 << 30, raggedness=1 << 40)
    text = "x" * 100_000
    keys = [f"{number:03d}" for number in range(8)]
    tree = apply(store, EMPTY_METARANGE, [record(key, text + key) for key in keys], large).metarange
    small = Splitting(HASH, max_bytes=150_000, raggedness=1 << 40)
    assert badly_cut(metarange.read(store, tree), small) == [True]
    packed = Packer(store, small).pack(tree)
    assert [info.count for info in metarange.read(store, packed.metarange)] == [2, 2, 2, 2]


def test_a_pack_that_cannot_put_leaves_the_tree_as_it_was(monkeypatch):
    forest = Forest()
    tree = forest.tree("a b | c d | e f")
    store = forest.fresh()
    infos = metarange.read(store, tree)

    def fails(*_):
        raise BackendUnavailableError("the network")

    with monkeypatch.context() as patched:
        patched.setattr(store.objects, "put_if_absent", fails)
        with pytest.raises(BackendUnavailableError):
            Packer(store, CRUMBS, everything=True).pack(tree)
    assert metarange.read(forest.fresh(), tree) == infos
    assert Packer(store, CRUMBS, everything=True).pack(tree).before == 2
