"""Work that lost a race is redone on the new head, with the same result and less work."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import apply, reapply
from graveler.committed.diff import diff, differing_spans, same_records
from graveler.committed.merge import Earlier, merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import Splitting
from tests.committed.trees import (
    CRUMBS,
    WHOLE,
    Forest,
    between,
    changes,
    contents,
    new_store,
    record,
)

KEYS = st.text("abc", min_size=1, max_size=4)
TREES = st.dictionaries(KEYS, st.sampled_from(["A@1", "A@2", "B@1", "C@1"]), max_size=25)
SPLITTINGS = st.builds(
    Splitting, max_bytes=st.sampled_from([100, 300, 10_000]), raggedness=st.integers(2, 5)
)
STRATEGIES = (None, "source-wins", "dest-wins")


def held(store, tree):
    """Return the content of each path, without its address."""
    return {key: text.partition("@")[0] for key, text in contents(store, tree).items()}


def grow(store, state, splitting):
    return apply(store, EMPTY_METARANGE, between({}, state), splitting).metarange


@settings(max_examples=150, deadline=None)
@given(TREES, TREES, TREES, TREES, SPLITTINGS, st.sampled_from(STRATEGIES))
def test_a_merge_done_again_is_the_merge_done_at_once(base, source, then, now, splitting, strategy):
    store = new_store()
    first = grow(store, base, splitting)
    ours = apply(store, first, between(base, source), splitting).metarange
    before = apply(store, first, between(base, then), splitting).metarange
    after = apply(store, before, between(then, now), splitting).metarange
    done = merge(store, first, ours, before, strategy=strategy, splitting=splitting)
    if done.conflicts:
        return
    at_once = merge(store, first, ours, after, strategy=strategy, splitting=splitting)
    again = merge(
        store,
        first,
        ours,
        after,
        strategy=strategy,
        splitting=splitting,
        earlier=Earlier(before, done.metarange),
    )
    assert again.conflicts == at_once.conflicts
    if not again.conflicts:
        assert contents(store, again.metarange) == contents(store, at_once.metarange)


def test_a_merge_done_again_opens_only_what_changed_since():
    forest = Forest()
    keys = [f"k{n:04d}" for n in range(1000)]
    base = apply(forest.fresh(), EMPTY_METARANGE, map(record, keys), CRUMBS).metarange
    ours = [record(f"k{n:04d}", "s") for n in range(0, 1000, 50)]
    theirs = [record(f"k{n:04d}", "d") for n in range(1, 1000, 50)]
    source = apply(forest.fresh(), base, ours, CRUMBS).metarange
    then = apply(forest.fresh(), base, theirs, CRUMBS).metarange
    done = merge(forest.fresh(), base, source, then, splitting=CRUMBS).metarange
    now = apply(forest.fresh(), then, [record("k0502", "d")], CRUMBS).metarange
    store, full = forest.fresh(), forest.fresh()
    again = merge(store, base, source, now, splitting=CRUMBS, earlier=Earlier(then, done))
    assert store.stats.ranges_read <= 3
    at_once = merge(full, base, source, now, splitting=CRUMBS)
    assert full.stats.ranges_read > 30
    assert contents(store, again.metarange) == contents(full, at_once.metarange)


@settings(max_examples=150, deadline=None)
@given(TREES, TREES, TREES, SPLITTINGS)
def test_changes_applied_again_are_the_changes_applied_at_once(base, staged, now, splitting):
    store = new_store()
    first = grow(store, base, splitting)
    deleted = [key for key in base if key not in staged and len(key) % 2]
    lines = [f"{key}={text}" for key, text in staged.items()] + [f"-{key}" for key in deleted]
    writes = changes(" ".join(lines))
    done = apply(store, first, writes, splitting).metarange
    moved = apply(store, first, between(base, now), splitting).metarange

    def within(start, stop):
        return [write for write in writes if start <= write[0] <= stop]

    again = reapply(store, first, done, moved, within, splitting)
    at_once = apply(store, moved, writes, splitting)
    assert held(store, again.metarange) == held(store, at_once.metarange)
    assert again.changed == (not same_records(store, moved, again.metarange))
    assert at_once.changed == (not same_records(store, moved, at_once.metarange))


def test_changes_applied_again_open_what_moved_alone():
    forest = Forest()
    keys = [f"k{n:04d}" for n in range(1000)]
    base = apply(forest.fresh(), EMPTY_METARANGE, map(record, keys), CRUMBS).metarange
    writes = [record(key, "s") for key in keys]
    done = apply(forest.fresh(), base, writes, CRUMBS).metarange
    moved = apply(forest.fresh(), base, [record("k0500", "d")], CRUMBS).metarange
    store = forest.fresh()
    asked = []

    def within(start, stop):
        asked.append((start, stop))
        return [write for write in writes if start <= write[0] <= stop]

    again = reapply(store, base, done, moved, within, CRUMBS)
    assert contents(store, again.metarange) == dict.fromkeys(keys, "s")
    ((start, stop),) = asked
    assert start <= b"k0500" <= stop < b"k0550"


@settings(max_examples=100, deadline=None)
@given(TREES, TREES, SPLITTINGS)
def test_what_differs_lies_within_the_spans(before, after, splitting):
    store = new_store()
    left = grow(store, before, splitting)
    right = apply(store, left, between(before, after), splitting).metarange
    spans = differing_spans(store, left, right)
    assert len(spans) <= 16
    assert list(spans) == sorted(spans)
    for change in diff(store, left, right):
        assert any(first <= change.key <= last for first, last in spans)


def test_spans_are_as_narrow_as_the_ranges():
    forest = Forest()
    left = forest.tree("a b", "c d", "e f")
    right = apply(forest.fresh(), left, [record("c", "2")], WHOLE).metarange
    store = forest.fresh()
    assert differing_spans(store, left, right) == ((b"c", b"d"),)
    assert differing_spans(store, left, left) == ()
    assert store.stats.ranges_read == 0
