"""Slices of a tree that are built separately give the tree that one process builds."""

from bisect import bisect_right
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.slices import Cut, Load, build, stitch
from graveler.committed.splitting import Cutter
from graveler.errors import SourceChangedError
from tests.committed.drawing import POLICIES, SPLITTINGS, STATES, grown
from tests.committed.trees import between, new_store, record

PIECES = st.sampled_from([1, 2, 3, 8, 37])


def break_keys(changes, splitting):
    cutter = Cutter(splitting)
    return [key for key, _, value in changes if value is not None and cutter.hard(key, None)]


def sliced(store, cut, changes):
    """Apply changes with one builder for each slice, the last slice first."""
    keys = [change[0] for change in changes]
    ends = [0, *(bisect_right(keys, key) for key in cut.breaks), len(keys)]
    parts = [
        build(store, cut, number, changes[ends[number] : ends[number + 1]])
        for number in reversed(range(cut.slices))
    ]
    return stitch(store, cut, parts[::-1])


def check(store, base, changes, splitting, candidates):
    cut = Cut.of(store, base, splitting, (changes[0][0], changes[-1][0]), candidates)
    assert sliced(store, cut, changes) == apply(store, base, changes, splitting)
    return cut


def cut_at(random, changes, splitting, pieces):
    """Draw keys at which slices may end."""
    keys = break_keys(changes, splitting)
    return sorted(random.sample(keys, min(len(keys), pieces - 1)))


@settings(max_examples=50)
@given(
    st.lists(STATES, max_size=4),
    SPLITTINGS,
    SPLITTINGS | st.none(),
    STATES.filter(bool),
    PIECES,
    st.randoms(use_true_random=False),
)
def test_over_a_tree_it_is_that_of_one_commit(states, former, policy, new, pieces, random):
    store, splitting = new_store(), policy or former
    base, before = grown(store, states, former), (states or [{}])[-1]
    after = before | new if random.random() < 0.5 else new
    changes = between(before, after)
    changes += [
        record(key, text)
        for key, text in after.items()
        if before.get(key) == text and random.random() < 0.5
    ]
    changes.sort(key=lambda change: change[0])
    if changes:
        check(store, base, changes, splitting, cut_at(random, changes, splitting, pieces))


def many(seed, count):
    random = Random(seed)
    draw = random.randrange
    names = (f"{'ab'[draw(2)]}/{'cdef'[draw(4)]}{draw(9)}/{draw(10**6)}" for _ in range(count))
    return {name: random.choice("AB") for name in names}


@pytest.mark.parametrize("splitting", [POLICIES[1], POLICIES[6]], ids=["hash", "directory"])
def test_a_cut_may_be_at_every_edge(splitting):
    store = new_store()
    before = many(2, 50) | many(1, 30)
    base = grown(store, [many(1, 50), before], splitting)
    changes = between(before, before | many(3, 40))
    keys = break_keys(changes, splitting)
    assert len(keys) > 5
    for key in keys:
        check(store, base, changes, splitting, [key])
    cut = check(store, base, changes, splitting, keys)
    assert cut.slices > 5


def numbered(count):
    return {f"{number:04}": "A" for number in range(count)}


def loaded(store, base, changes, splitting, share):
    load = Load(metarange.read(store, base), splitting)
    for change in changes:
        load.add(change)
    return load.cut(store, base, splitting, share)


@settings(max_examples=50)
@given(
    st.lists(STATES, min_size=1, max_size=4),
    SPLITTINGS,
    SPLITTINGS | st.none(),
    STATES,
    st.sampled_from([1, 100, 700, 10**6]),
    st.randoms(use_true_random=False),
)
def test_a_commit_is_cut_at_ranges_that_stay_too(states, former, policy, new, share, random):
    store, splitting = new_store(), policy or former
    base, before = grown(store, states, former), states[-1]
    after = {key: text for key, text in before.items() if random.random() < 0.8} | new
    changes = between(before, after)
    changes += [(f"{key}b".encode(), None, None) for key in new if f"{key}b" not in before | after]
    changes.sort(key=lambda change: change[0])
    if changes:
        cut = loaded(store, base, changes, splitting, share)
        assert sliced(store, cut, changes) == apply(store, base, changes, splitting)


def test_slices_of_a_commit_have_about_the_bytes_of_their_share():
    store, splitting = new_store(), POLICIES[1]
    base = grown(store, [numbered(1000)], splitting)
    changes = [record(f"{number:04}", "B") for number in range(0, 1000, 3)]
    whole = sum(info.size for info in metarange.read(store, base))
    cut = loaded(store, base, changes, splitting, whole // 10)
    assert 5 <= cut.slices <= 14
    assert loaded(store, base, changes, splitting, 10 * whole).slices == 1


def test_ranges_far_from_the_changes_are_not_opened():
    store, splitting = new_store(), POLICIES[1]
    before = numbered(1000)
    base = grown(store, [before], splitting)
    changes = between(before, before | {f"0500x{number:02}": "B" for number in range(40)})
    reading = new_store(store.objects)
    span = changes[0][0], changes[-1][0]
    cut = Cut.of(reading, base, splitting, span, break_keys(changes, splitting))
    result = sliced(reading, cut, changes)
    assert cut.slices > 5
    assert reading.stats.ranges_read <= cut.slices * 2 + 2
    assert reading.stats.ranges_written <= cut.slices * 2 + 2
    assert len(metarange.read(reading, result.metarange)) > len(metarange.read(reading, base)) - 4


def test_a_slice_without_its_break_key_is_refused():
    store, splitting = new_store(), POLICIES[1]
    changes = between({}, many(1, 100))
    key = break_keys(changes, splitting)[0]
    cut = Cut.of(store, EMPTY_METARANGE, splitting, (changes[0][0], changes[-1][0]), [key])
    with pytest.raises(SourceChangedError, match="at the first look and not at the second"):
        sliced(store, cut, [change for change in changes if change[0] != key])
