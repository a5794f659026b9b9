"""The local form of a table compared with a dict, and the ranges of a tree with a list."""

import sys
from bisect import bisect_left
from functools import partial
from itertools import chain
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
from graveler.committed.tree import TreeBuilder, shared_ends, shared_start, tree_of
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


@given(ROWS, st.lists(KEYS, max_size=40))
def test_look_ups_give_what_a_dict_gives(rows, others):
    table = table_of(rows)
    sought = [*others, *rows, *others]
    assert [table.get(key) for key in sought] == [rows.get(key) for key in sought]
    assert together(table, sought) == [key + rows[key] if key in rows else None for key in sought]


@pytest.mark.parametrize("hashed", [7, 1 << 63, (1 << 64) - 1])
def test_keys_of_one_hash_are_told_apart(monkeypatch, hashed):

    def hash_of(key):
        return hashed if len(key) < 100 else hashed - 1

    for module in (flat, lookup, form):  # pages have checksums as well
        monkeypatch.setattr(module, "xxh3_64_intdigest", hash_of)
    monkeypatch.setattr(form, "xxh3_64_digest", lambda key: hash_of(key).to_bytes(8))
    rows = {f"k{n:02}".encode(): f"{n}".encode() for n in range(30)}
    table = table_of(rows)
    sought = [*rows, b"k", b"k99", b"x" * 200]
    assert [table.get(key) for key in sought] == [rows.get(key) for key in sought]
    assert together(table, sought) == [key + rows[key] if key in rows else None for key in sought]


def test_each_of_many_keys_is_found_and_no_other():
    rows = {b"%06d" % number: b"%d" % number for number in range(0, 60_000, 3)}
    table = table_of(rows)
    sought = [b"%06d" % number for number in range(60_000)]
    assert [table.get(key) for key in sought] == [rows.get(key) for key in sought]
    for some in (list(rows), sought):
        assert together(table, some) == [key + rows[key] if key in rows else None for key in some]


@given(ROWS, KEYS | st.just(b""), KEYS | st.none())
def test_rows_are_read_from_a_key_to_another(rows, start, stop):
    table = table_of(rows)
    expected = [
        (key, rows[key]) for key in sorted(rows) if key >= start and (stop is None or key < stop)
    ]
    assert [
        row for run in table.runs(start, stop) for row in zip(*run.columns(), strict=True)
    ] == expected
    assert table.bisect(start) == bisect_left(sorted(rows), start)


@given(ROWS)
def test_rows_keep_their_ids_and_places(rows):
    table, ids = table_of(rows), ids_of(rows)
    keys, values = sorted(rows), [value for _, value in sorted(rows.items())]
    assert table.records() == list(zip(keys, ids, values, strict=True))
    assert [table.key(row) for row in range(table.count)] == keys
    assert [table.value(row) for row in range(table.count)] == values
    for start in range(table.count + 1):
        assert table.keys(start) == keys[start:]
        assert table.record_ids(start) == b"".join(ids[start:])


@given(ROWS)
def test_equal_records_have_equal_forms(rows):
    form = build(1, ID, rows)
    assert form == build(1, ID, rows, at_once=3)
    assert FlatTable(form, 1, ID, name="again", rebuild=refuse).count == len(rows)


@given(ROWS)
def test_the_form_is_the_same_with_and_without_numpy(rows):
    assert "numpy" in sys.modules
    form = build(1, ID, rows)
    with patch.dict(sys.modules):
        del sys.modules["numpy"]
        assert build(1, ID, rows) == form


@given(ROWS)
def test_a_run_gives_back_the_rows_that_it_was_made_of(rows):
    items = sorted(rows.items())
    assert list(zip(*Run.of(items).columns(), strict=True)) == items


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


def test_first_lookups_verify_only_the_pages_that_they_read():
    rows = {b"%06d" % number: b"%d" % number for number in range(20_000)}
    form = build(1, ID, rows)
    end = table_of(rows).rows_at
    index = range(end - 280_000, end, flat.PAGE_BYTES)
    healed = {1: 0, 9: 0}
    for at in index:
        damaged = form[:at] + bytes([form[at] ^ 1]) + form[at + 1 :]
        for lookups in healed:
            built = iter([form])
            table = FlatTable(damaged, 1, ID, name="range", rebuild=partial(next, built))
            assert [table.get(b"%06d" % 300) for _ in range(lookups)] == [b"300"] * lookups
            healed[lookups] += 1 - length_hint(built)
    assert 2 <= healed[1] <= 4
    assert healed[9] == len(index)


def test_a_form_that_is_built_again_with_damage_is_an_error():
    form = build(1, ID, {b"a": b"1"})
    at = HEADER.size + 2 * 8 + 5  # in the index, after the checksums of two pages
    damaged = form[:at] + bytes([form[at] ^ 1]) + form[at + 1 :]
    table = FlatTable(damaged, 1, ID, name="range x", rebuild=lambda _: damaged)
    for _ in range(2):
        with pytest.raises(CorruptionError, match="range x"):
            table.get(b"a")


def test_a_table_has_no_other_attributes():
    with pytest.raises(AttributeError, match="'FlatTable' object has no attribute 'size'"):
        table_of({b"a": b"1"}).size  # noqa: B018


@pytest.mark.parametrize("other", [(2, ID), (1, bytes(32))])
def test_the_form_of_another_table_is_refused(other):
    with pytest.raises(DamagedFileError):
        FlatTable(build(1, ID, {b"a": b"1"}), *other, name="x", rebuild=refuse)


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
    assert tree.find(first) == next(
        (info for info in infos if info.min_key <= first <= info.max_key), None
    )
    inside = [info for info in infos if info.max_key >= first and info.min_key < last]
    assert list(tree.within(first, last)) == inside
    assert list(tree.within(first)) == [info for info in infos if info.max_key >= first]


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


IDS = st.lists(st.sampled_from([bytes([n]) * 32 for n in range(3)]), max_size=30)


@given(IDS, IDS, st.integers(0, 5), st.integers(0, 5))
def test_shared_runs_of_ids_are_as_long_as_they_are(one, other, at, other_at):
    left, right = one[at:], other[other_at:]
    most = min(len(left), len(right))
    expected = next((n for n in range(most) if left[n] != right[n]), most)
    assert shared_start(b"".join(one), b"".join(other), most, at, other_at) == expected


@given(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=2))
def test_trees_share_their_ends(numbers, others):
    sides = [ranges(numbers), *(ranges(numbers ^ other) for other in others)]
    head, tail = shared_ends(*map(tree_of, sides))
    least = min(map(len, sides))
    assert all(side[:head] == sides[0][:head] for side in sides)
    assert all(side[len(side) - tail :] == sides[0][len(sides[0]) - tail :] for side in sides)
    assert head + tail <= least
    assert head == least or len({side[head].id for side in sides}) > 1
    assert head + tail == least or len({side[-1 - tail].id for side in sides}) > 1
    assert len(list(chain(*sides))) >= least
