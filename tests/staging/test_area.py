"""The staging area: separate tokens, tokens read together, and removed tokens."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.base.background import Inline
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.staging.area import StagingArea, combine
from graveler.values import VOID

keys = st.binary(min_size=1, max_size=3)
layers = st.lists(
    st.dictionaries(keys, st.binary(max_size=3).filter(VOID.__ne__), max_size=8), max_size=5
)


@pytest.fixture
def kv():
    return MemoryKVStore()


@pytest.fixture
def area(kv):
    return StagingArea(kv, "uid", Inline())


def test_repositories_share_a_store_and_nothing_else(kv):
    one, two = StagingArea(kv, "one", Inline()), StagingArea(kv, "two", Inline())
    one.set("t", b"k", b"1")
    assert two.is_empty("t")
    two.drop("t")
    assert one.get(["t"], b"k") == b"1"


def test_a_newer_write_is_not_withdrawn(area):
    area.set("t", b"k", b"old")
    area.set("t", b"k", b"new")
    area.withdraw("t", b"k", b"old")
    assert area.get(["t"], b"k") == b"new"
    area.withdraw("t", b"k", b"new")
    assert area.is_empty("t")


def test_dropping_that_fails_harms_nobody(kv, caplog):
    area = StagingArea(kv, "uid", Inline())
    area.set("t", b"k", b"1")
    kv.close()
    area.drop("t")
    assert "clean-up failed" in caplog.text


@given(layers, keys)
def test_an_area_reads_as_dicts_laid_over_each_other(newest_first, start):
    area = StagingArea(MemoryKVStore(), "uid", Inline())
    expected = {}
    tokens = [f"t{number}" for number in range(len(newest_first))]
    for token, layer in reversed(list(zip(tokens, newest_first, strict=True))):
        area.set_many(token, layer.items())
        expected.update(layer)
    assert list(area.scan(tokens)) == sorted(expected.items())
    streams = [sorted(layer.items()) for layer in newest_first]
    assert list(combine(streams)) == sorted(expected.items())
    assert list(area.scan(tokens, start)) == sorted(
        item for item in expected.items() if item[0] >= start
    )
    for key in [start, *expected]:
        assert area.get(tokens, key) == expected.get(key)


def test_combining_reads_no_further_than_asked():
    def endless(name):
        return ((b"%06d" % number, name) for number in count())

    combined = combine([endless(b"new"), endless(b"old")])
    assert [next(combined) for _ in range(3)] == [(b"%06d" % n, b"new") for n in range(3)]
