"""The ranges that result from equal records, for any number and order of commits."""

from itertools import groupby, zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import DIRECTORY, HASH, Cutter, Splitting
from graveler.sstable.reader import TableReader
from tests.committed.drawing import SPLITTINGS, STATES, grown
from tests.committed.trees import new_store, record, rows_of

POLICIES = [
    Splitting(HASH, max_bytes=20_000, raggedness=128),
    Splitting(DIRECTORY, max_bytes=20_000),
]


def segments(tree, store, splitting):
    """Return range ids by records, for parts between hard breaks whose ranges all end naturally."""
    cutter = Cutter(splitting)
    infos = metarange.read(store, tree)
    at, number = [], 0
    for info, following in zip_longest(infos, infos[1:]):
        at.append((number, info))
        if following is None or cutter.hard(info.max_key, following.min_key):
            number += 1
    found = {}
    for _, group in groupby(at, key=lambda item: item[0]):
        ranges = [info for _, info in group]
        if all(info.natural for info in ranges):
            records = [item for info in ranges for item in rows_of(store.open(info.id))]
            found[tuple(records)] = [info.id for info in ranges]
    return found


@settings(max_examples=60)
@given(st.lists(STATES, min_size=1, max_size=4), st.lists(STATES, max_size=3), SPLITTINGS)
def test_equal_records_between_hard_breaks_have_equal_ranges(one, other, splitting):
    store = new_store()
    first, second, fresh = (
        segments(grown(store, states, splitting), store, splitting)
        for states in (one, [*other, one[-1]], [one[-1]])
    )
    for found in (first, second):
        for records in found.keys() & fresh.keys():
            assert found[records] == fresh[records]


@pytest.mark.parametrize("splitting", POLICIES, ids=lambda rule: rule.policy)
def test_small_appends_leave_few_ranges_and_write_little(splitting):
    store, tree, written, before = new_store(), EMPTY_METARANGE, [], 0
    for hour in range(240):
        names = (f"input/2021/{hour // 24:03d}/{hour % 24:02d}/{part:03d}" for part in range(8))
        applied = apply(store, tree, map(record, names), splitting)
        tree = applied.metarange
        written.append(store.stats.ranges_written - before)
        before = store.stats.ranges_written
    infos = metarange.read(store, tree)
    assert len(infos) < 24
    assert max(written) <= 3
    assert sum(written) / len(written) < 1.1
    bodies = (TableReader(store.objects.get(each.key)) for each in store.objects.list())
    sizes = [
        int(body.user_properties["size"])
        for body in bodies
        if body.user_properties["type"] == "range"
    ]
    assert sum(sizes) < 7 * sum(info.size for info in infos)
