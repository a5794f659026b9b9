"""Many keys, looked up at once in a tree of many ranges."""

from random import Random

import pytest

from graveler.committed.lookup import find_many
from graveler.committed.metarange import EMPTY_METARANGE
from tests.committed.trees import new_store, value, write_ranges

NAMES = [f"k{number:04}" for number in range(0, 1_000, 2)]
LONG, SHORT = NAMES[:400], NAMES[400:]
LINES = [*(" ".join(LONG[at : at + 100]) for at in range(0, 400, 100)),
         *(" ".join(SHORT[at : at + 3]) for at in range(0, 100, 3))]  # fmt: skip
ROWS = {name.encode(): name.encode() + value("1") for name in NAMES}


@pytest.fixture(scope="module")
def tree():
    store = new_store()
    return store, write_ranges(store, LINES)


@pytest.mark.parametrize("count", [0, 1, 7, 64, 65, 200, 3_000])
def test_keys_are_found_in_any_order_and_repeat(tree, count):
    store, metarange = tree
    random = Random(count)
    asked = [f"k{random.randrange(1_100):04}".encode() for _ in range(count)]
    assert list(find_many(store, metarange, asked)) == [ROWS.get(key) for key in asked]


STEMS = [key[:-1] for key in ROWS] + [key + b"0" for key in ROWS]
MISSING = {
    "behind": [b"z"] * 100,
    "before": [b"a"] * 100,
    "around": [b"a", b"z"] * 50,
    "alike": STEMS,
    "longer than a range": [b"k" + b"0" * 50_000] * 100,
}


@pytest.mark.parametrize("asked", MISSING.values(), ids=list(MISSING))
def test_keys_that_no_range_has_are_missing(tree, asked):
    store, metarange = tree
    assert list(find_many(store, metarange, asked)) == [None] * len(asked)


def test_keys_of_several_lengths_are_found_in_one_range():
    names = ["k" * length + f"{number:02}" for length in range(1, 9) for number in range(40)]
    store = new_store()
    metarange = write_ranges(store, [" ".join(sorted(names))])
    asked = Random(3).sample([*names, *(f"{name}x" for name in names)], 2 * len(names))
    found = find_many(store, metarange, [name.encode() for name in asked])
    rows = [None if name.endswith("x") else name.encode() + value("1") for name in asked]
    assert list(found) == rows
    assert list(found[5:9]) == rows[5:9]
    assert [found[place] for place in range(-3, 9)] == [*rows[-3:], *rows[:9]]


@pytest.mark.parametrize("count", [1, 100])
def test_the_empty_tree_has_no_key(count):
    assert list(find_many(new_store(), EMPTY_METARANGE, [b"k"] * count)) == [None] * count


def test_each_range_is_opened_once(tree):
    store, metarange = tree
    before = store.stats.ranges_read
    find_many(store, metarange, Random(1).sample([*ROWS], len(ROWS)))
    assert store.stats.ranges_read == before + len(LINES)
