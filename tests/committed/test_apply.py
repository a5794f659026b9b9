from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply, keeping
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.errors import UnsortedKeysError
from graveler.model import Summary
from graveler.objects.memory import MemoryStore
from graveler.values import Replacement
from tests.committed.trees import (
    CRUMBS,
    WHOLE,
    Forest,
    between,
    changes,
    contents,
    new_store,
    problems_of,
    record,
)

# (base ranges, changes, expected ranges, (added, changed, removed), ranges read, ranges written).
# "gap": a key between two ranges never opens the range after it. It opens the range before it
# if that range is small and does not end naturally before the key.
# "tight": a range is bounded by its own first and last key.
TABLE = {
    "inside and after": (
        ["a c", "d"],
        "b e f",
        ["a b c", "d e f"],
        (3, 0, 0),
        2,
        2,
    ),
    "many inside the first": (
        ["k1 k6", "l0 l3"],
        "k2 k3 k4 k5",
        ["k1 k2 k3 k4 k5 k6", "l0 l3"],
        (4, 0, 0),
        1,
        1,
    ),
    "before and after, gap": (
        ["k2 k3", "k4 k5"],
        "k1 k6",
        ["k1", "k2 k3", "k4 k5 k6"],
        (2, 0, 0),
        1,
        2,
    ),
    "changed": (
        ["a b c", "d", "e"],
        "b=2 e=2",
        ["a b=2 c", "d", "e=2"],
        (0, 2, 0),
        2,
        2,
    ),
    "same content at new addresses": (
        ["a b c", "d", "e"],
        "b=1@new e=1@new",
        ["a b c", "d", "e"],
        (0, 0, 0),
        2,
        0,
    ),
    "removed, one range gone": (
        ["a b c", "d", "e"],
        "-b -e",
        ["a c", "d"],
        (0, 0, 2),
        2,
        1,
    ),
    "changed and added": (
        ["a b c", "d"],
        "b=2 e f",
        ["a b=2 c", "d e f"],
        (2, 1, 0),
        2,
        2,
    ),
    "removed from nothing": ([], "-b -e -f", [], (0, 0, 0), 0, 0),
    "added before, removed what is not there, gap": (
        ["c d"],
        "a -e -f",
        ["a", "c d"],
        (1, 0, 0),
        0,
        1,
    ),
    "removed what is not there, added after, gap": (
        ["b c"],
        "-a d",
        ["b c d"],
        (1, 0, 0),
        1,
        1,
    ),
    "removed in the third of four, tight": (
        ["a b", "c d", "e f", "g h"],
        "-e",
        ["a b", "c d f", "g h"],
        (0, 0, 1),
        2,
        1,
    ),
    "no changes": (["a b", "c d"], "", ["a b", "c d"], (0, 0, 0), 0, 0),
    "into nothing": ([], "a b c", ["a b c"], (3, 0, 0), 0, 1),
    "gap key goes on in a range just rewritten": (
        ["a c", "e g", "j"],
        "b d i",
        ["a b c d", "e g i", "j"],
        (3, 0, 0),
        2,
        2,
    ),
    "gap key after a range touched without effect joins it": (
        ["a c", "e g"],
        "c=1@new d",
        ["a c d", "e g"],
        (1, 0, 0),
        2,
        1,
    ),
    "gap key between two rewritten ranges joins them": (
        ["a c", "e g"],
        "b d f",
        ["a b c d e f g"],
        (3, 0, 0),
        2,
        1,
    ),
    "tombstone in a gap": (["a c", "e g"], "-d", ["a c", "e g"], (0, 0, 0), 0, 0),
    "touched without effect beside one with": (
        ["a c", "e g"],
        "-b f",
        ["a c", "e f g"],
        (1, 0, 0),
        2,
        1,
    ),
    "last key removed": (["a b", "c d"], "-b", ["a", "c d"], (0, 0, 1), 1, 1),
    "everything removed": (["a b", "c d"], "-a -b -c -d", [], (0, 0, 4), 2, 0),
    "replaced": (["a b"], "-a -b c d", ["c d"], (2, 0, 2), 1, 1),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_commits(case):
    base, line, expected, counts, read, written = TABLE[case]
    forest = Forest()
    tree = forest.tree(*base)
    store = forest.fresh()
    applied = apply(store, tree, changes(line), WHOLE)
    assert forest.ranges(applied.metarange) == expected
    assert astuple(applied.summary)[:3] == counts
    assert store.stats.ranges_read == read
    assert (store.stats.ranges_written, applied.summary.ranges_written) == (written, written)
    assert applied.summary.ranges_reused == len(expected) - written
    if counts == (0, 0, 0):
        assert applied.metarange == tree
        assert store.stats.metaranges_written == 0


def test_content_that_is_there_already_keeps_its_address():
    forest = Forest()
    tree = forest.tree("a=1@old b", "c")
    applied = apply(forest.fresh(), tree, changes("a=1@new b=2"), WHOLE)
    assert forest.ranges(applied.metarange) == ["a=1@old b=2", "c"]
    assert applied.summary == Summary(changed=1, ranges_reused=1, ranges_written=1)


def test_one_change_in_many_ranges_reads_and_writes_two_tables():
    forest = Forest()
    tree = apply(
        forest.fresh(), EMPTY_METARANGE, (record(f"k{n:04d}") for n in range(2000)), CRUMBS
    ).metarange
    store = forest.fresh()
    count = len(metarange.read(forest.fresh(), tree))
    assert count > 500
    applied = apply(store, tree, [record("k1000", "2")], CRUMBS)
    stats = store.stats
    assert (stats.metaranges_read, stats.ranges_read) == (1, 1)
    assert (stats.metaranges_written, stats.ranges_written) == (1, 1)
    assert stats.fetched == 2
    assert applied.summary == Summary(changed=1, ranges_reused=count - 1, ranges_written=1)


class ReadOnly(MemoryStore):
    def put_if_absent(self, key, body):
        raise AssertionError(f"{key} was put")


@pytest.mark.parametrize("line", ["", "b=1@new", "-c -z", "a d=1@new -e"])
def test_a_commit_without_effect_puts_nothing(line):
    forest = Forest()
    tree = forest.tree("a b", "d f")
    objects = ReadOnly()
    for info in forest.objects.list():
        objects.put(info.key, forest.objects.get(info.key))
    assert apply(new_store(objects), tree, changes(line), WHOLE).metarange == tree


@pytest.mark.parametrize("line", ["b a", "a a", "m b2 b1", "z y"])
@pytest.mark.parametrize("base", [[], ["a b c", "m n"]])
def test_unsorted_changes_are_refused_and_publish_no_tree(base, line):
    forest = Forest()
    tree = forest.tree(*base)
    unsorted = [record(key, "2") for key in line.split()]
    store = forest.fresh()
    with pytest.raises(UnsortedKeysError):
        apply(store, tree, unsorted, WHOLE)
    assert store.stats.metaranges_written == 0


def test_equal_commits_in_either_order_give_equal_ids():
    keys = [f"k{n:04d}" for n in range(0, 3000, 3)]
    splitting = Splitting(raggedness=20)
    forest = Forest()
    base = apply(forest.fresh(), EMPTY_METARANGE, map(record, keys), splitting).metarange
    infos = metarange.read(forest.fresh(), base)
    # keys inside ranges: a key between two ranges goes where its own commit finds room
    inside = [key for n in range(1, 2990, 33) if infos.find((key := f"k{n:04d}").encode())]
    first = [record(key) for key in inside]
    second = [record(f"k{n:04d}", "2") for n in range(0, 2990, 66)]
    trees = set()
    for order in ((first, second), (second, first)):
        tree = base
        for commit in order:
            tree = apply(forest.fresh(), tree, commit, splitting).metarange
        trees.add(tree)
    both = {key: (key, identifier, raw) for key, identifier, raw in (*first, *second)}
    trees.add(apply(forest.fresh(), base, (both[key] for key in sorted(both)), splitting).metarange)
    assert len(inside) > 50
    assert len(trees) == 1


KEYS = st.text("abc/", min_size=1, max_size=4)
TREES = st.dictionaries(KEYS, st.sampled_from("ABC"), max_size=25)
SPLITTINGS = st.builds(
    Splitting,
    min_bytes=st.sampled_from([0, 100]),
    max_bytes=st.sampled_from([100, 300, 10_000]),
    raggedness=st.integers(2, 5),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TREES, min_size=1, max_size=4), SPLITTINGS)
def test_commit_after_commit_a_tree_is_what_a_dict_would_be(states, splitting):
    store = new_store()
    tree, before = EMPTY_METARANGE, dict[str, str]()
    for after in states:
        applied = apply(store, tree, between(before, after), splitting)
        assert contents(store, applied.metarange) == after
        assert (applied.metarange == tree) == (before == after)
        summary = applied.summary
        assert summary.added == len(after.keys() - before.keys())
        assert summary.removed == len(before.keys() - after.keys())
        assert summary.changed == sum(
            before[key] != after[key] for key in before.keys() & after.keys()
        )
        infos = metarange.read(store, applied.metarange)
        assert summary.ranges_reused + summary.ranges_written == len(infos)
        assert list(problems_of(store, applied.metarange)) == []
        tree, before = applied.metarange, after


@settings(max_examples=50, deadline=None)
@given(TREES, SPLITTINGS)
def test_an_import_is_cut_as_the_writer_cuts(state, splitting):
    records = [record(key, state[key]) for key in sorted(state, key=str.encode)]
    store = new_store()
    applied = apply(store, EMPTY_METARANGE, records, splitting)
    with RangeWriter(store, splitting) as writer:
        writer.add_all(records)
        assert metarange.read(store, applied.metarange) == writer.finish()


@settings(max_examples=50, deadline=None)
@given(TREES, SPLITTINGS)
def test_staging_again_what_is_there_changes_nothing(state, splitting):
    store = new_store()
    records = [record(key, state[key]) for key in sorted(state, key=str.encode)]
    tree = apply(store, EMPTY_METARANGE, records, splitting).metarange
    written = store.stats.ranges_written
    again = apply(store, tree, records, splitting)
    assert (again.metarange, again.summary.total) == (tree, 0)
    assert store.stats.ranges_written == written


def replacing(key, text):
    return Replacement(*record(key, text))


def test_a_replacement_lands_where_equal_content_is():
    forest = Forest()
    base = forest.tree("a=1@old b")
    kept = apply(forest.fresh(), base, [record("a", "1@new")], WHOLE)
    assert (kept.metarange, kept.summary.total, kept.changed) == (base, 0, False)
    landed = apply(forest.fresh(), base, [replacing("a", "1@new")], WHOLE)
    assert forest.contents(landed.metarange) == {"a": "1@new", "b": "1"}
    assert (landed.summary.changed, landed.changed) == (1, True)


def test_a_replacement_by_the_present_record_changes_nothing():
    forest = Forest()
    base = forest.tree("a=1@old b")
    again = apply(forest.fresh(), base, [replacing("a", "1@old")], WHOLE)
    assert (again.metarange, again.changed) == (base, False)


def test_a_replacement_fills_an_empty_tree():
    forest = Forest()
    made = apply(forest.fresh(), EMPTY_METARANGE, [replacing("a", "1@new")], WHOLE)
    assert forest.contents(made.metarange) == {"a": "1@new"}


def test_equal_content_written_again_is_the_record_in_place():
    forest = Forest()
    before = forest.tree("a=1@old b=1@old c=1@old")
    written = [
        record("a", "1@new"),
        record("b", "2@new"),
        replacing("c", "1@new"),
        (b"d", None, None),
    ]
    kept = list(keeping(forest.fresh(), before, written))
    assert kept == [record("a", "1@old"), *written[1:]]
    assert isinstance(kept[2], Replacement)
