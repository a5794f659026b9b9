from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.diff import diff, differing, pieces, segments
from graveler.committed.tree import Tree, tree_of
from graveler.model import RangeInfo
from tests.committed.drawing import ADDRESSED, SPLITTINGS, grown
from tests.committed.trees import Forest, new_store, text_of

# (left, right, differences, ranges opened). Only values are compared and reported, never whole
# ranges; a tree has no ranges without records.
TABLE = {
    "equal": ("a b | c", "a b | c", "", 0),
    "added and removed": ("a b | c e", "a b | c d", "+d -e", 2),
    "changed": ("a b | c", "a b | c=2", "~c", 2),
    "other bounds": ("a b c", "c=2 d | e f", "-a -b ~c +d +e +f", 3),
    "from nothing": ("", "a b | c", "+a +b +c", 2),
    "to nothing": ("a b | c", "", "-a -b -c", 2),
    "overlapping": ("a b | c d e f", "c d | e f g", "-a -b +g", 4),
    "ranges removed": ("a b | c | d | e | f g", "a b | f g", "-c -d -e", 3),
    "ranges joined": ("a b | c | d | e | f g", "a b | d e", "-c -f -g", 5),
    "range added between": ("a b | e f", "a b | c d | e f", "+c +d", 1),
    "first and third of three": ("a b | c d | e f", "a b=2 | c d | e f=2", "~b ~f", 4),
    "same content at another address": ("a=1@x b", "a=1@y b", "", 2),
    "same content cut otherwise": ("a b | c", "a | b c", "", 4),
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
    before, after = forest.tree(left), forest.tree(right)
    store = forest.fresh()
    assert shown(store, before, after) == expected
    assert store.stats.ranges_read == opened
    assert store.stats.metaranges_read == (0 if before == after else bool(left) + bool(right))


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
    left = forest.tree("a/1 a/2 | c/4 c/5 | c/6 c/7")
    right = forest.tree("a/1 a/3 | b/1 b/2 | c/4 c/5 | c/6 c/7=a")
    store = forest.fresh()
    assert shown(store, left, right, prefix) == expected
    assert store.stats.ranges_read == opened


@settings(max_examples=60)
@given(ADDRESSED, ADDRESSED, SPLITTINGS, SPLITTINGS, st.sampled_from(["", "a", "ab", "b"]))
def test_a_diff_is_what_two_dicts_say(left, right, one, two, prefix):
    store = new_store()
    before, after = grown(store, [left], one), grown(store, [right], two)
    found = [
        (key.decode(), content(text_of(old)), content(text_of(new)))
        for key, old, new in diff(store, before, after, prefix=prefix.encode())
    ]
    assert found == [
        (key, content(left.get(key)), content(right.get(key)))
        for key in sorted(left.keys() | right.keys())
        if key.startswith(prefix) and content(left.get(key)) != content(right.get(key))
    ]


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
    common = [info for shared, _ in pieces(*sides) for info in shared]
    alone = [group for group in found if len({group[0], *group}) == 1]
    assert [info for group in alone for info in group[0]] == common


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
    before = numbered(*range(3_000))
    after = [*numbered(4_000), *before[1:-1], *numbered(5_000)]
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
