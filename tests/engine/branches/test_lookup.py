"""A look-up of many objects takes few requests, in any layout of folders."""

import random
from itertools import count

import pytest

from graveler.objects.memory import MemoryStore
from graveler.repository.writes.links import AT_A_TIME, look_up

PAGE = 1_000


class Counting(MemoryStore):
    """Counts requests as S3 does: one for each page, and one for each object."""

    put_threads = 4

    def __init__(self, keys):
        super().__init__()
        self.heads = self.pages = 0
        for key in keys:
            self.put(key, b"")

    def head(self, key):
        self.heads += 1
        return super().head(key)

    def list(self, prefix="", *, after=""):
        for number, info in zip(count(), super().list(prefix, after=after), strict=False):
            self.pages += number % PAGE == 0
            yield info

    @property
    def rounds(self):
        return self.pages + -(-self.heads // AT_A_TIME)


LAYOUTS = {
    "flat": [f"in/{number:06}" for number in range(20_000)],
    "folders of 12": [f"in/{number // 12:06}/{number:06}" for number in range(100_000)],
    "two folders far apart": [
        f"in/{side}/{number:06}" for side in "az" for number in range(10_000)
    ],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_100_000_links_that_fill_their_prefix_take_110_requests(layout):
    keys = LAYOUTS[layout]
    store = Counting(keys)
    assert set(look_up(store, keys)) == set(keys)
    assert store.pages + store.heads <= len(keys) // PAGE + 10


def test_few_among_many_are_asked_for_one_by_one():
    store = Counting(f"in/{number:06}" for number in range(12_000))
    wanted = [f"in/{number:06}" for number in range(0, 12_000, 120)]
    assert set(look_up(store, wanted)) == set(wanted)
    assert store.rounds <= 2 * -(-len(wanted) // AT_A_TIME) + 1


def test_two_dense_folders_with_objects_between_are_listed_each():
    between = [f"in/m/{number:06}" for number in range(30_000)]
    wanted = [f"in/{side}/{number:04}" for side in "az" for number in range(2_000)]
    store = Counting([*wanted, *between])
    assert set(look_up(store, wanted)) == set(wanted)
    assert store.rounds <= 16


@pytest.mark.parametrize("count", [0, 1, 5, 31, 32, 33, 500, 1_000])
def test_what_is_there_is_found_and_nothing_else(count):
    draw = random.Random(count)
    names = [f"{draw.choice('abc')}/{draw.randrange(40)}/{number}é" for number in range(1_000)]
    there = [name for name in names if draw.random() < 0.7]
    wanted = draw.sample(names, count)
    store = Counting(there)
    found = look_up(store, wanted)
    assert set(found) == set(wanted) & set(there)
    assert all(found[key] == store.head(key) for key in found)
