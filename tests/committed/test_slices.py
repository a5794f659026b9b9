"""Slices of a tree that are built separately give the tree that one process builds."""

from bisect import bisect_right
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.slices import Cut, Load, build, stitch
from graveler.committed.splitting import DIRECTORY, HASH, Cutter, Splitting
from graveler.errors import SourceChangedError
from tests.committed.trees import between, new_store, record

POLICIES = [
    Splitting(HASH, max_bytes=400, raggedness=2, hard=2),
    Splitting(HASH, min_bytes=100, max_bytes=900, raggedness=3, hard=1),
    Splitting(HASH, min_bytes=150, max_bytes=600, raggedness=2, hard=2),
    Splitting(DIRECTORY, max_bytes=600, raggedness=2, hard=2, hard_directories=3),
    Splitting(DIRECTORY, max_bytes=200, raggedness=1, hard=3, hard_directories=2),
]
STATES = st.dictionaries(st.text("ab/", min_size=1, max_size=6), st.sampled_from("AB"), max_size=40)
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


def grown(store, states, policies):
    """Return the tree after one commit for each state, each with its policy, and the last state."""
    tree, before = EMPTY_METARANGE, dict[str, str]()
    for after, splitting in zip(states, policies, strict=False):
        tree = apply(store, tree, between(before, after), splitting).metarange
        before = after
    return tree, before


@settings(max_examples=50)
@given(STATES.filter(bool), st.sampled_from(POLICIES), PIECES, st.randoms(use_true_random=False))
def test_a_new_tree_is_that_of_one_writer(state, splitting, pieces, random):
    store = new_store()
    changes = between({}, state)
    keys = break_keys(changes, splitting)
    cut = check(
        store,
        EMPTY_METARANGE,
        changes,
        splitting,
        sorted(random.sample(keys, min(len(keys), pieces - 1))),
    )
    with RangeWriter(store, splitting) as writer:
        writer.add_all(record(key, text) for key, text in sorted(state.items()))
        tree = writer.finish_tree()[0]
    assert sliced(store, cut, changes).metarange == tree


@settings(max_examples=100)
@given(
    st.lists(STATES, min_size=1, max_size=4),
    st.lists(st.sampled_from(POLICIES), min_size=5, max_size=5),
    st.booleans(),
    STATES.filter(bool),
    PIECES,
    st.randoms(use_true_random=False),
)
def test_over_a_tree_it_is_that_of_one_commit(states, policies, one_policy, new, pieces, random):
    store = new_store()
    policies = policies[:1] * 5 if one_policy else policies
    base, before = grown(store, states, policies)
    splitting = policies[-1]
    after = before | new if random.random() < 0.5 else new
    changes = between(before, after)
    changes += [
        record(key, text)
        for key, text in after.items()
        if before.get(key) == text and random.random() < 0.5
    ]
    changes.sort(key=lambda change: change[0])
    if changes:
        keys = break_keys(changes, splitting)
        check(
            store, base, changes, splitting, sorted(random.sample(keys, min(len(keys), pieces - 1)))
        )


def many(seed, count):
    random = Random(seed)
    return {
        f"{random.choice('ab')}/{random.choice('cdef')}{random.randrange(9)}/{random.randrange(10**6)}": random.choice(
            "AB"
        )
        for _ in range(count)
    }


@pytest.mark.parametrize(
    "splitting", POLICIES, ids=lambda policy: f"{policy.policy}-{policy.max_bytes}"
)
def test_a_cut_may_be_at_every_edge(splitting):
    store = new_store()
    base, before = grown(store, [many(1, 50), many(2, 50) | many(1, 30)], [splitting] * 2)
    after = before | many(3, 40)
    changes = between(before, after)
    keys = break_keys(changes, splitting)
    assert len(keys) > 5
    for key in keys:
        check(store, base, changes, splitting, [key])
    cut = check(store, base, changes, splitting, keys)
    assert cut.slices > 5


def loaded(store, base, changes, splitting, share):
    load = Load(metarange.read(store, base), splitting)
    for change in changes:
        load.add(change)
    return load.cut(store, base, splitting, share)


@settings(max_examples=150)
@given(
    st.lists(STATES, min_size=1, max_size=4),
    st.lists(st.sampled_from(POLICIES), min_size=5, max_size=5),
    st.booleans(),
    STATES,
    st.sampled_from([1, 100, 700, 10**6]),
    st.randoms(use_true_random=False),
)
def test_a_commit_is_cut_at_ranges_that_stay_too(states, policies, same, new, share, random):
    store = new_store()
    policies = policies[:1] * 5 if same else policies
    base, before = grown(store, states, policies)
    splitting = policies[-1]
    after = {key: text for key, text in before.items() if random.random() < 0.8} | new
    changes = between(before, after)
    changes += [(f"{key}b".encode(), None, None) for key in new if f"{key}b" not in before | after]
    changes.sort(key=lambda change: change[0])
    if changes:
        cut = loaded(store, base, changes, splitting, share)
        assert sliced(store, cut, changes) == apply(store, base, changes, splitting)


@pytest.mark.parametrize("gone", [False, True], ids=["kept", "deleted"])
def test_deletions_are_cut_where_the_end_of_a_range_stays(gone):
    splitting = POLICIES[0]
    store = new_store()
    base, _ = grown(store, [{f"{number:04}": "A" for number in range(400)}], [splitting])
    ends = metarange.read(store, base).keys()
    keys = (
        ends if gone else [f"{n:04}".encode() for n in range(400) if f"{n:04}".encode() not in ends]
    )
    changes = [(key, None, None) for key in keys]
    cut = loaded(store, base, changes, splitting, 1)
    assert (cut.slices > 20) is not gone
    assert sliced(store, cut, changes) == apply(store, base, changes, splitting)


def test_slices_of_a_commit_have_about_the_bytes_of_their_share():
    splitting = POLICIES[0]
    store = new_store()
    base, _ = grown(store, [{f"{number:04}": "A" for number in range(1000)}], [splitting])
    changes = [record(f"{number:04}", "B") for number in range(0, 1000, 3)]
    whole = sum(info.size for info in metarange.read(store, base))
    cut = loaded(store, base, changes, splitting, whole // 10)
    assert 5 <= cut.slices <= 14
    assert loaded(store, base, changes, splitting, 10 * whole).slices == 1


def test_ranges_far_from_the_changes_are_not_opened():
    splitting = POLICIES[0]
    store = new_store()
    base, before = grown(store, [{f"{number:04}": "A" for number in range(1000)}], [splitting])
    changes = between(before, before | {f"0500x{number:02}": "B" for number in range(40)})
    reading = new_store(store.objects)
    cut = Cut.of(
        reading, base, splitting, (changes[0][0], changes[-1][0]), break_keys(changes, splitting)
    )
    result = sliced(reading, cut, changes)
    assert cut.slices > 5
    assert reading.stats.ranges_read <= cut.slices * 2 + 2
    assert result.summary.ranges_reused > len(metarange.read(reading, base)) - 4


def test_a_slice_without_its_break_key_is_refused():
    splitting = POLICIES[0]
    store = new_store()
    changes = between({}, many(1, 100))
    key = break_keys(changes, splitting)[0]
    cut = Cut.of(store, EMPTY_METARANGE, splitting, (changes[0][0], changes[-1][0]), [key])
    with pytest.raises(SourceChangedError, match="at the first look and not at the second"):
        sliced(store, cut, [change for change in changes if change[0] != key])
