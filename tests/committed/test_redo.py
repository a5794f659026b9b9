"""Work that lost a race is redone on the new head, with the same result and less work."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import apply, reapply
from graveler.committed.diff import diff, differing_spans, same_records
from graveler.committed.merge import Earlier, merge
from tests.committed.drawing import ADDRESSED, NAMES, SPLITTINGS, edited, grown, wide
from tests.committed.trees import CRUMBS, Forest, between, changes, contents, new_store, record

STRATEGIES = (None, "source-wins", "dest-wins")


def held(store, tree):
    """Return the content of each path, without its address."""
    return {key: text.partition("@")[0] for key, text in contents(store, tree).items()}


@settings(max_examples=60)
@given(ADDRESSED, ADDRESSED, ADDRESSED, ADDRESSED, SPLITTINGS, st.sampled_from(STRATEGIES))
def test_a_merge_done_again_is_the_merge_done_at_once(base, source, then, now, splitting, strategy):
    store, rules = new_store(), {"strategy": strategy, "splitting": splitting}
    first = grown(store, [base], splitting)
    ours = apply(store, first, between(base, source), splitting).metarange
    before = apply(store, first, between(base, then), splitting).metarange
    after = apply(store, before, between(then, now), splitting).metarange
    done = merge(store, first, ours, before, **rules)
    if done.conflicts:
        return
    at_once = merge(store, first, ours, after, **rules)
    earlier = Earlier(before, done.metarange)
    again = merge(store, first, ours, after, earlier=earlier, **rules)
    assert again.conflicts == at_once.conflicts
    if not again.conflicts:
        assert contents(store, again.metarange) == contents(store, at_once.metarange)


def test_a_merge_done_again_opens_only_what_changed_since():
    forest = Forest()
    base = wide(forest)
    source = edited(forest, base, **dict.fromkeys(NAMES[::20], "s"))
    then = edited(forest, base, **dict.fromkeys(NAMES[1::20], "d"))
    done = merge(forest.fresh(), base, source, then, splitting=CRUMBS).metarange
    now = edited(forest, then, k0202="d")
    store, full = forest.fresh(), forest.fresh()
    again = merge(store, base, source, now, splitting=CRUMBS, earlier=Earlier(then, done))
    assert store.stats.ranges_read <= 3
    at_once = merge(full, base, source, now, splitting=CRUMBS)
    assert full.stats.ranges_read > 30
    assert contents(store, again.metarange) == contents(full, at_once.metarange)


@settings(max_examples=60)
@given(ADDRESSED, ADDRESSED, ADDRESSED, SPLITTINGS)
def test_changes_applied_again_are_the_changes_applied_at_once(base, staged, now, splitting):
    store = new_store()
    first = grown(store, [base], splitting)
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
    base = wide(forest)
    writes = [record(name, "s") for name in NAMES]
    done = edited(forest, base, **dict.fromkeys(NAMES, "s"))
    moved = edited(forest, base, k0200="d")
    store = forest.fresh()
    asked = []

    def within(start, stop):
        asked.append((start, stop))
        return [write for write in writes if start <= write[0] <= stop]

    again = reapply(store, base, done, moved, within, CRUMBS)
    assert contents(store, again.metarange) == dict.fromkeys(NAMES, "s")
    ((start, stop),) = asked
    assert start <= b"k0200" <= stop < b"k0220"


@settings(max_examples=60)
@given(ADDRESSED, ADDRESSED, SPLITTINGS)
def test_what_differs_lies_within_the_spans(before, after, splitting):
    store = new_store()
    left = grown(store, [before], splitting)
    right = apply(store, left, between(before, after), splitting).metarange
    spans = differing_spans(store, left, right)
    assert differing_spans(store, left, left) == ()
    assert len(spans) <= 16
    assert list(spans) == sorted(spans)
    for change in diff(store, left, right):
        assert any(first <= change.key <= last for first, last in spans)
