from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import apply
from graveler.committed.diff import diff, differing, pieces, same_records, segments
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import Splitting
from graveler.committed.tree import Tree, tree_of
from graveler.model import RangeInfo
from tests.committed.trees import CRUMBS, Forest, between, new_store, record, text_of

# (left ranges, right ranges, differences, ranges opened). Only values are compared and
# reported, never whole ranges; a tree has no ranges without records.
TABLE = {
    "equal": (["k1 k2", "k3"], ["k1 k2", "k3"], "", 0),
    "added in the last": (["k1 k2", "k3"], ["k1 k2", "k3 k4"], "+k4", 2),
    "removed in the last": (["k1 k2", "k3 k4"], ["k1 k2", "k3"], "-k4", 2),
    "added and removed": (["k1 k2", "k3 k5"], ["k1 k2", "k3 k4"], "+k4 -k5", 2),
    "changed": (["k1 k2", "k3"], ["k1 k2", "k3=a"], "~k3", 2),
    "other bounds": (
        ["k1 k2 k3"],
        ["k3=a k4", "k5 k6"],
        "-k1 -k2 ~k3 +k4 +k5 +k6",
        3,
    ),
    "from nothing": ([], ["k1 k2", "k3"], "+k1 +k2 +k3", 2),
    "to nothing": (["k1 k2", "k3"], [], "-k1 -k2 -k3", 2),
    "overlapping": (["k1 k2", "k3 k4 k5 k6"], ["k3 k4", "k5 k6 k7"], "-k1 -k2 +k7", 4),
    "grown at the front": (["k3 k4 k5"], ["k1 k2 k3 k4 k5"], "+k1 +k2", 2),
    "ranges removed": (
        ["k1 k2", "k3", "k4", "k5", "k6 k7"],
        ["k1 k2", "k6 k7"],
        "-k3 -k4 -k5",
        3,
    ),
    "ranges joined": (
        ["k1 k2", "k3", "k4", "k5", "k6 k7"],
        ["k1 k2", "k4 k5"],
        "-k3 -k6 -k7",
        5,
    ),
    "range added between": (["k1 k2", "k5 k6"], ["k1 k2", "k3 k4", "k5 k6"], "+k3 +k4", 1),
    "first and third of three": (
        ["k1 k2", "k3 k4", "k5 k6"],
        ["k1 k2=a", "k3 k4", "k5 k6=a"],
        "~k2 ~k6",
        4,
    ),
    "same content at another address": (["k1=1@x k2"], ["k1=1@y k2"], "", 2),
    "same content cut otherwise": (["k1 k2", "k3"], ["k1", "k2 k3"], "", 4),
}


def shown(store, left, right, prefix=""):
    signs = []
    for key, before, after in diff(store, left, right, prefix=prefix.encode()):
        sign = "+" if before is None else "-" if after is None else "~"
        signs.append(sign + key.decode())
    return " ".join(signs)


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_differences(case):
    left, right, expected, opened = TABLE[case]
    forest = Forest()
    before, after = forest.tree(*left), forest.tree(*right)
    store = forest.fresh()
    assert shown(store, before, after) == expected
    assert store.stats.ranges_read == opened


@pytest.mark.parametrize(
    ("prefix", "expected", "opened"),
    [
        ("", "-a/2 +a/3 +b/1 +b/2 ~c/7", 5),
        ("a/", "-a/2 +a/3", 2),
        ("b/", "+b/1 +b/2", 1),
        ("c/", "~c/7", 2),
        ("c/4", "", 0),
        ("c/7", "~c/7", 2),
        ("d", "", 0),
    ],
)
def test_a_prefix_opens_only_ranges_that_can_hold_it(prefix, expected, opened):
    forest = Forest()
    left = forest.tree("a/1 a/2", "c/4 c/5", "c/6 c/7")
    right = forest.tree("a/1 a/3", "b/1 b/2", "c/4 c/5", "c/6 c/7=a")
    store = forest.fresh()
    assert shown(store, left, right, prefix) == expected
    assert store.stats.ranges_read == opened


def test_equal_ids_are_not_even_read():
    forest = Forest()
    tree = forest.tree("a b")
    store = forest.fresh()
    assert list(diff(store, tree, tree)) == []
    assert store.stats.metaranges_read == 0


def test_a_diff_is_read_as_it_is_taken():
    forest = Forest()
    right = forest.tree(*(f"k{n}a k{n}b" for n in range(9)))
    store = forest.fresh()
    walk = diff(store, EMPTY_METARANGE, right)
    assert next(walk).key == b"k0a"
    assert store.stats.ranges_read == 1


def test_one_change_among_many_ranges_opens_two():
    forest = Forest()
    tree = apply(
        forest.fresh(), EMPTY_METARANGE, (record(f"k{n:04d}") for n in range(1000)), CRUMBS
    ).metarange
    other = apply(forest.fresh(), tree, [record("k0500", "2")], CRUMBS).metarange
    store = forest.fresh()
    assert shown(store, tree, other) == "~k0500"
    assert (store.stats.metaranges_read, store.stats.ranges_read) == (2, 2)


KEYS = st.text("abc", min_size=1, max_size=4)
TREES = st.dictionaries(KEYS, st.sampled_from(["A", "A@moved", "B"]), max_size=25)
SPLITTINGS = st.builds(
    Splitting, max_bytes=st.sampled_from([100, 300, 10_000]), raggedness=st.integers(2, 5)
)


@settings(max_examples=150, deadline=None)
@given(TREES, TREES, SPLITTINGS, SPLITTINGS, st.sampled_from(["", "a", "ab", "c"]))
def test_a_diff_is_what_two_dicts_say(left, right, one, two, prefix):
    store = new_store()
    before = apply(store, EMPTY_METARANGE, between({}, left), one).metarange
    after = apply(store, EMPTY_METARANGE, between({}, right), two).metarange
    found = [
        (key.decode(), text_of(old), text_of(new))
        for key, old, new in diff(store, before, after, prefix=prefix.encode())
    ]
    assert [key for key, _, _ in found] == [
        key
        for key in sorted(left.keys() | right.keys())
        if key.startswith(prefix) and content(left.get(key)) != content(right.get(key))
    ]
    for key, old, new in found:
        assert (content(old), content(new)) == (content(left.get(key)), content(right.get(key)))


def content(text):
    return None if text is None else text.partition("@")[0]


INTERVALS = st.lists(st.integers(0, 30), unique=True, max_size=12).map(
    lambda numbers: [
        RangeInfo(bytes([low, high] * 16), bytes([low + 1]), bytes([high + 1]), 1, 1)
        for low, high in zip(sorted(numbers)[::2], sorted(numbers)[1::2], strict=False)
    ]
)


@given(st.lists(INTERVALS, min_size=2, max_size=3))
def test_segments_are_the_smallest_groups_that_do_not_touch(sides):
    found = list(segments(*sides))
    assert [[info for group in found for info in group[place]] for place in range(len(sides))] == [
        list(side) for side in sides
    ]
    spans = []
    for group in found:
        members = sorted((info.min_key, info.max_key) for side in group for info in side)
        reach = members[0][1]
        for low, high in members[1:]:
            assert low <= reach  # a gap would make two groups of it
            reach = max(reach, high)
        spans.append((members[0][0], reach))
    assert all(one[1] < other[0] for one, other in pairwise(spans))


@given(st.lists(INTERVALS, min_size=2, max_size=3))
def test_a_range_of_all_sides_is_a_segment_of_its_own(sides):
    common = [info for shared, _ in pieces(*sides) for info in shared]
    rest = differing(*sides)
    alone = [group for group in segments(*sides) if len({group[0], *group}) == 1]
    assert [info for group in alone for info in group[0]] == common
    assert sum(len(side) for side in rest) == sum(map(len, sides)) - len(common) * len(sides)


def numbered(*numbers, natural=True):
    return [
        RangeInfo(
            bytes(28) + n.to_bytes(4), b"%06d" % (2 * n), b"%06d" % (2 * n + 1), 1, 1, natural
        )
        for n in numbers
    ]


SPOTS = st.lists(st.integers(0, 3_000), max_size=6)


@given(
    st.lists(st.tuples(SPOTS, SPOTS, SPOTS, st.booleans()), min_size=2, max_size=3),
    st.sampled_from([1, 7, 64, 1_024]),
)
def test_differences_are_found_wherever_they_are(sides, block):
    trees, ids = [], []
    for gone, others, changed, natural in sides:
        numbers = sorted({*range(0, 2_000, 2), *others} - {*gone})
        infos = [*numbered(*numbers[:-1]), *numbered(*numbers[-1:], natural=natural)]
        for place in {number % len(infos) for number in changed}:
            infos[place] = replace(infos[place], id=b"changed" + infos[place].id[7:])
        trees.append(tree_of(infos))
        ids.append([info.id for info in trees[-1]])
    shared = set(ids[0]).intersection(*ids[1:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graveler.committed.tree._BLOCK", block)
        rest = differing(*trees)
    assert [[info.id for info in side] for side in rest] == [
        [identifier for identifier in side if identifier not in shared] for side in ids
    ]


def test_two_differences_far_apart_decode_few_ranges(monkeypatch):
    before = numbered(*range(20_000))
    after = [*numbered(30_000), *before[1:-1], *numbered(40_000)]
    after[0] = replace(after[0], min_key=before[0].min_key, max_key=before[0].max_key)
    trees = tree_of(before), tree_of(after)
    decoded = 0
    values = Tree.values

    def counted(tree):
        nonlocal decoded
        decoded += len(tree)
        return values(tree)

    monkeypatch.setattr(Tree, "values", counted)
    assert differing(*trees) == [[before[0], before[-1]], [after[0], after[-1]]]
    assert decoded == 4


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (["k1 k2", "k3"], ["k1", "k2 k3"], True),
        (["k1=1@x"], ["k1=1@y"], False),
        (["k1 k2"], ["k1"], False),
        ([], [], True),
        ([], ["k1"], False),
    ],
)
def test_trees_of_the_same_records_are_told_however_they_are_cut(left, right, same):
    forest = Forest()
    before, after = forest.tree(*left), forest.tree(*right)
    assert same_records(forest.fresh(), before, after) == same
    assert same_records(forest.fresh(), after, before) == same
