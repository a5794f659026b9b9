from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import Tally, apply, keeping
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import UnsortedKeysError
from graveler.objects.memory import MemoryStore
from graveler.values import Replacement
from tests.committed.drawing import SPLITTINGS, STATES, assert_sound
from tests.committed.trees import WHOLE, Forest, between, changes, new_store, record

# (base, changes, expected, (added, changed, removed), ranges read, ranges written).
# "gap": a key between two ranges never opens the range after it. It opens the range before it
# if that range is small and does not end naturally before the key.
# "tight": a range is bounded by its own first and last key.
TABLE = {
    "inside and after": ("a c | d", "b e f", "a b c | d e f", (3, 0, 0), 2, 2),
    "before and after, gap": ("b c | d e", "a f", "a | b c | d e f", (2, 0, 0), 1, 2),
    "changed": ("a b c | d | e", "b=2 e=2", "a b=2 c | d | e=2", (0, 2, 0), 2, 2),
    "same content at new addresses": ("a b | e", "b=1@x e=1@x", "a b | e", (0, 0, 0), 2, 0),
    "one range gone": ("a b c | d | e", "-b -e", "a c | d", (0, 0, 2), 2, 1),
    "changed and added": ("a b c | d", "b=2 e f", "a b=2 c | d e f", (2, 1, 0), 2, 2),
    "removed from nothing": ("", "-b -e -f", "", (0, 0, 0), 0, 0),
    "removed what is not there, gap": ("c d", "a -e -f", "a | c d", (1, 0, 0), 0, 1),
    "tight": ("a b | c d | e f | g h", "-e", "a b | c d f | g h", (0, 0, 1), 2, 1),
    "no changes": ("a b | c d", "", "a b | c d", (0, 0, 0), 0, 0),
    "into nothing": ("", "a b c", "a b c", (3, 0, 0), 0, 1),
    "gap key after a rewritten range": (
        "a c | e g | j",
        "b d i",
        "a b c d | e g i | j",
        (3, 0, 0),
        2,
        2,
    ),
    "gap key after a touched range": ("a c | e g", "c=1@x d", "a c d | e g", (1, 0, 0), 2, 1),
    "gap key between rewritten ranges": ("a c | e g", "b d f", "a b c d e f g", (3, 0, 0), 2, 1),
    "tombstone in a gap": ("a c | e g", "-d", "a c | e g", (0, 0, 0), 0, 0),
    "touched beside changed": ("a c | e g", "-b f", "a c | e f g", (1, 0, 0), 2, 1),
    "last key removed": ("a b | c d", "-b", "a | c d", (0, 0, 1), 1, 1),
    "everything removed": ("a b | c d", "-a -b -c -d", "", (0, 0, 4), 2, 0),
    "replaced": ("a b", "-a -b c d", "c d", (2, 0, 2), 1, 1),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_commits(case):
    base, line, expected, counts, read, written = TABLE[case]
    forest = Forest()
    tree = forest.tree(base)
    store = forest.fresh()
    applied = apply(store, tree, changes(line), WHOLE)
    assert forest.text(applied.metarange) == expected
    assert astuple(applied.tally) == counts
    assert store.stats.ranges_read == read
    assert store.stats.ranges_written == written
    if counts == (0, 0, 0):
        assert applied.metarange == tree
        assert store.stats.metaranges_written == 0


def test_content_that_is_there_already_keeps_its_address():
    forest = Forest()
    tree = forest.tree("a=1@old b | c")
    applied = apply(forest.fresh(), tree, changes("a=1@new b=2"), WHOLE)
    assert forest.text(applied.metarange) == "a=1@old b=2 | c"
    assert applied.tally == Tally(changed=1)


class ReadOnly(MemoryStore):
    def put_if_absent(self, key, body):
        raise AssertionError(f"{key} was put")


@pytest.mark.parametrize("line", ["", "b=1@new", "-c -z", "a d=1@new -e"])
def test_a_commit_without_effect_puts_nothing(line):
    forest = Forest()
    tree = forest.tree("a b | d f")
    objects = ReadOnly()
    for info in forest.objects.list():
        objects.put(info.key, forest.objects.get(info.key))
    assert apply(new_store(objects), tree, changes(line), WHOLE).metarange == tree


@pytest.mark.parametrize("line", ["b a", "a a", "m b2 b1", "z y"])
@pytest.mark.parametrize("base", ["", "a b c | m n"])
def test_unsorted_changes_are_refused_and_publish_no_tree(base, line):
    forest = Forest()
    tree = forest.tree(base)
    store = forest.fresh()
    with pytest.raises(UnsortedKeysError):
        apply(store, tree, [record(key, "2") for key in line.split()], WHOLE)
    assert store.stats.metaranges_written == 0


@settings(max_examples=60)
@given(st.lists(STATES, min_size=1, max_size=4), SPLITTINGS)
def test_commit_after_commit_a_tree_is_what_a_dict_would_be(states, splitting):
    store = new_store()
    tree, before = EMPTY_METARANGE, dict[str, str]()
    for after in states:
        applied = apply(store, tree, between(before, after), splitting)
        assert_sound(store, applied.metarange, after, splitting)
        assert (applied.metarange == tree) == (before == after)
        tally = applied.tally
        assert tally.added == len(after.keys() - before.keys())
        assert tally.removed == len(before.keys() - after.keys())
        assert tally.changed == sum(
            before[key] != after[key] for key in before.keys() & after.keys()
        )
        tree, before = applied.metarange, after
    written = store.stats.ranges_written
    again = apply(store, tree, between({}, before), splitting)
    assert (again.metarange, again.tally.total) == (tree, 0)
    assert store.stats.ranges_written == written


NEW, OLD = record("a", "1@new"), record("a", "1@old")


@pytest.mark.parametrize(
    ("base", "change", "result", "changed"),
    [
        ("a=1@old b", NEW, "a=1@old b", (0, False)),
        ("a=1@old b", Replacement(*NEW), "a=1@new b", (1, True)),
        ("a=1@old b", Replacement(*OLD), "a=1@old b", (0, False)),
        ("", Replacement(*NEW), "a=1@new", (1, True)),
    ],
    ids=["a record", "a replacement", "the present record", "an empty tree"],
)
def test_a_replacement_lands_where_equal_content_is(base, change, result, changed):
    forest = Forest()
    applied = apply(forest.fresh(), forest.tree(base), [change], WHOLE)
    assert forest.text(applied.metarange) == result
    assert (applied.tally.total, applied.changed) == changed


def test_equal_content_written_again_is_the_record_in_place():
    forest = Forest()
    before = forest.tree("a=1@old b=1@old c=1@old")
    replacement = Replacement(*record("c", "1@new"))
    written = [NEW, record("b", "2@new"), replacement, (b"d", None, None)]
    kept = list(keeping(forest.fresh(), before, written))
    assert kept == [OLD, *written[1:]]
    assert isinstance(kept[2], Replacement)
