"""The local form of a table compared with a dict, and the ranges of a tree with a list."""

import sys
from bisect import bisect_left
from functools import partial
from operator import length_hint
from unittest.mock import patch

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.committed import lookup
from graveler.committed.cache import flat, form
from graveler.committed.cache.flat import HEADER, DamagedFileError, FlatTable, Run
from graveler.committed.cache.form import Form
from graveler.committed.lookup import hashes_of, slots_of
from graveler.committed.tree import TreeBuilder, tree_of
from graveler.errors import CorruptionError, InvalidInputError
from graveler.model import RangeInfo
from graveler.values import record_id

ID = bytes(range(32))
KEYS = st.binary(min_size=1, max_size=6)
ROWS = st.dictionaries(KEYS, st.binary(max_size=40), min_size=1, max_size=40)


def build(kind, identifier, rows, at_once=7):
    keys = sorted(rows)
    made = Form()
    for start in range(0, len(keys), at_once):
        some = keys[start : start + at_once]
        made.add(some, [rows[key] for key in some])
    return b"".join(made.finish(kind, identifier, b"".join(ids_of(rows))))


def ids_of(rows):
    return [record_id(key, value) for key, value in sorted(rows.items())]


def together(table, keys):
    """Return the rows that are found for keys of each length at once."""
    found = {}
    for width in set(map(len, keys)):
        some = [key for key in keys if len(key) == width]
        places, tags = slots_of(hashes_of(some), table.homes, table.shift)
        bounds = table.find_many(numpy.array(some, f"V{width}"), places, tags).tolist()
        for key, (start, stop) in zip(some, bounds, strict=True):
            found[key] = table.buffer[start:stop] if stop else None
    return [found[key] for key in keys]


def refuse(_numbered):
    raise AssertionError("nothing is damaged")


def table_of(rows):
    form = build(1, ID, rows)
    return FlatTable(form, 1, ID, name="range", rebuild=refuse)


def assert_found(table, rows, sought):
    assert [table.get(key) for key in sought] == [rows.get(key) for key in sought]
    assert together(table, sought) == [key + rows[key] if key in rows else None for key in sought]


@given(ROWS, st.lists(KEYS, max_size=40))
def test_look_ups_give_what_a_dict_gives(rows, others):
    assert_found(table_of(rows), rows, [*others, *rows, *others])


@pytest.mark.parametrize("hashed", [7, 1 << 63, (1 << 64) - 1])
def test_keys_of_one_hash_are_told_apart(monkeypatch, hashed):

    def hash_of(key):
        return hashed if len(key) < 100 else hashed - 1

    for module in (flat, lookup, form):  # pages have checksums as well
        monkeypatch.setattr(module, "xxh3_64_intdigest", hash_of)
    monkeypatch.setattr(form, "xxh3_64_digest", lambda key: hash_of(key).to_bytes(8))
    rows = {f"k{n:02}".encode(): f"{n}".encode() for n in range(30)}
    assert_found(table_of(rows), rows, [*rows, b"k", b"k99", b"x" * 200])


@given(ROWS, KEYS | st.just(b""), KEYS | st.none())
def test_rows_keep_their_keys_values_ids_and_places(rows, start, stop):
    table, ids = table_of(rows), ids_of(rows)
    keys, values = sorted(rows), [value for _, value in sorted(rows.items())]
    assert [row for run in table.runs(start, stop) for row in zip(*run.columns(), strict=True)] == [
        (key, rows[key]) for key in keys if key >= start and (stop is None or key < stop)
    ]
    assert table.bisect(start) == bisect_left(keys, start)
    assert table.records() == list(zip(keys, ids, values, strict=True))
    for row in range(table.count):
        assert (table.key(row), table.value(row)) == (keys[row], values[row])
        assert table.keys(row) == keys[row:]
        assert table.record_ids(row) == b"".join(ids[row:])
    assert list(zip(*Run.of(sorted(rows.items())).columns(), strict=True)) == sorted(rows.items())


@given(ROWS)
def test_equal_records_have_equal_forms(rows):
    form = build(1, ID, rows)
    assert form == build(1, ID, rows, at_once=3)
    assert "numpy" in sys.modules
    with patch.dict(sys.modules):
        del sys.modules["numpy"]
        assert build(1, ID, rows) == form


ANSWERS = [
    lambda table: table.get(b"b"),
    lambda table: together(table, [b"b"] * 20),
    lambda table: table.key(1),
    lambda table: table.value(2),
    lambda table: [run.columns() for run in table.runs()],
    lambda table: table.records(),
    lambda table: table.bisect(b"b"),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_damaged_byte_is_found_by_the_first_read_that_needs_it(answer):
    rows = {b"a": b"1", b"b": b"22", b"c": b"333"}
    form, expected = build(1, ID, rows), answer(table_of(rows))
    refused, healed = [], []
    for at in range(len(form)):
        damaged = form[:at] + bytes([form[at] ^ 1]) + form[at + 1 :]
        built = iter([form])  # it can be built once
        try:
            table = FlatTable(damaged, 1, ID, name="range", rebuild=partial(next, built))
        except DamagedFileError:
            refused.append(at)
            continue
        assert table.count == 3
        assert length_hint(built) == 1  # the index is read only when it is needed
        assert answer(table) == expected, at
        healed += [at] * (1 - length_hint(built))
    index = flat.HEADER.size + 2 * 8
    assert refused == list(range(index))  # the header and the checksums of its pages
    assert set(range(index, index + 24 + 16 + 16 + 8)) <= set(healed)


def test_a_form_that_is_built_again_with_damage_is_an_error():
    form = build(1, ID, {b"a": b"1"})
    at = HEADER.size + 2 * 8 + 5  # in the index, after the checksums of two pages
    damaged = form[:at] + bytes([form[at] ^ 1]) + form[at + 1 :]
    table = FlatTable(damaged, 1, ID, name="range x", rebuild=lambda _: damaged)
    for _ in range(2):
        with pytest.raises(CorruptionError, match="range x"):
            table.get(b"a")


def test_the_form_of_another_table_is_refused():
    for other in ((2, ID), (1, bytes(32))):
        with pytest.raises(DamagedFileError):
            FlatTable(build(1, ID, {b"a": b"1"}), *other, name="x", rebuild=refuse)
    with pytest.raises(AttributeError, match="'FlatTable' object has no attribute 'size'"):
        _ = table_of({b"a": b"1"}).size


def test_a_form_that_would_be_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(form, "_MOST_BYTES", 100)
    with pytest.raises(InvalidInputError, match="smaller ranges"):
        build(1, ID, {b"a": bytes(100)})


def ranges(numbers, label=0):
    return [
        RangeInfo(bytes([label, *n.to_bytes(31)]), b"%05d" % (10 * n), b"%05d" % (10 * n + 5), 1, 1)
        for n in sorted(numbers)
    ]


NUMBERS = st.sets(st.integers(0, 60), max_size=40)


@given(NUMBERS, st.integers(0, 620), st.integers(0, 620), st.booleans())
def test_the_ranges_of_a_tree_are_found_by_key(numbers, start, stop, warm):
    infos = ranges(numbers)
    tree = tree_of(infos)
    if warm:
        for _ in range(20):
            tree.find(b"00000")
    first, last = b"%05d" % start, b"%05d" % stop
    assert list(tree) == infos
    holding = [info for info in infos if info.min_key <= first <= info.max_key]
    assert tree.find(first) == (holding[0] if holding else None)
    behind = [info for info in infos if info.max_key >= first]
    assert list(tree.within(first)) == behind
    assert list(tree.within(first, last)) == [info for info in behind if info.min_key < last]


@given(NUMBERS, st.slices(40), st.slices(40))
def test_a_slice_of_a_tree_is_a_tree(numbers, one, other):
    infos = ranges(numbers)
    one, other = slice(one.start, one.stop), slice(other.start, other.stop)
    view = tree_of(infos)[one]
    assert (list(view), len(view)) == (infos[one], len(infos[one]))
    assert list(view[other]) == infos[one][other]
    assert view.ids() == [info.id for info in infos[one]]


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 5)), max_size=6))
def test_a_tree_is_built_from_ranges_and_parts_of_trees(steps):
    builder, model = TreeBuilder(), []
    for place, (numbers, most) in enumerate(steps):
        infos = ranges(numbers, place)
        builder.extend(tree_of(infos) if place % 2 else infos)
        model += infos
        taken = min(most, len(model))
        assert builder.pop(taken) == model[len(model) - taken :]
        del model[len(model) - taken :]
        assert len(builder) == len(model)
        assert not model or builder[-1] == model[-1]
    tree = builder.tree()
    assert tree.ids() == [info.id for info in model]
    assert tree.keys() == [info.max_key for info in model]
