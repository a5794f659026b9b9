"""Tables merge as units: a log of Delta Lake makes its folder a unit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import apply
from graveler.committed.diff import RawChange
from graveler.committed.merge import Earlier, RawConflict, merge, merge_changes
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import Splitting
from graveler.committed.units import log_of, units_of
from tests.committed.trees import (
    CRUMBS,
    WHOLE,
    Forest,
    between,
    contents,
    new_store,
    problems_of,
    text_of,
)

STRATEGIES = (None, "source-wins", "dest-wins")
LOG = "t/_delta_log/"


def folders(states):
    """Return the outermost folders whose log both sides changed."""
    logs = {log for key in states if (log := log_of(key.encode())) is not None}
    torn = set()
    for log in logs:
        changed = [False, False]
        for key, (base, source, dest) in states.items():
            if key.encode().startswith(log) and source != dest:
                changed[0] |= source != base
                changed[1] |= dest != base
        if all(changed):
            torn.add(log)
    return [unit.decode() for unit in units_of(torn)]


def oracle(states, strategy):
    """Return the merge of three dicts, and its conflicts."""
    torn = folders(states)
    merged, conflicts = {}, []
    for key, (base, source, dest) in states.items():
        if any(key.startswith(unit) for unit in torn):
            merged[key] = source if strategy == "source-wins" else dest
        elif source in {base, dest}:
            merged[key] = dest
        elif base == dest or strategy == "source-wins":
            merged[key] = source
        else:
            merged[key] = dest
            conflicts.append(key)
    conflicts += [f"{unit}_delta_log" for unit in torn]
    found = {key: text for key, text in merged.items() if text != "X"}
    return found, [] if strategy else sorted(conflicts)


# a table in a folder, a table in that table, a table at the root; files around each log
PATHS = st.sampled_from(
    [
        *(f"{LOG}{number}" for number in range(8)),
        *("t/A", "t/a", "t/z", "s", "u"),
        *("t/n/_delta_log/0", "t/n/_delta_log/1", "t/n/a", "v/_delta_log/0", "v/a"),
    ]
)
ROOT = st.sampled_from(["_delta_log/0", "_delta_log/1", "A", "a"])
STATES = st.lists(st.sampled_from("XABC"), min_size=3, max_size=3)
STILL = st.sampled_from("XABC").map(lambda state: [state] * 3)
SPLITTINGS = st.builds(
    Splitting, max_bytes=st.sampled_from([100, 300, 10_000]), raggedness=st.integers(2, 5)
)


def side(states, place):
    return {key: state[place] for key, state in states.items() if state[place] != "X"}


def grow(store, states, splitting):
    base = apply(store, EMPTY_METARANGE, between({}, side(states, 0)), splitting).metarange
    return base, *(
        apply(store, base, between(side(states, 0), side(states, place)), splitting).metarange
        for place in (1, 2)
    )


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(PATHS, STATES | STILL, max_size=14) | st.dictionaries(ROOT, STATES),
    SPLITTINGS,
    st.sampled_from(STRATEGIES),
)
def test_a_merge_with_tables_is_what_three_dicts_say(states, splitting, strategy):
    store = new_store()
    trees = grow(store, states, splitting)
    expected, conflicts = oracle(states, strategy)
    told = list(merge_changes(store, *trees, strategy=strategy))
    merged = merge(store, *trees, strategy=strategy, splitting=splitting)
    assert [conflict.key.decode() for conflict in merged.conflicts] == conflicts
    assert merged.conflict_count == len(conflicts)
    assert [one.key for one in told if isinstance(one, RawConflict)] == [
        conflict.key for conflict in merged.conflicts
    ]
    assert [one.key for one in told] == sorted(one.key for one in told)
    if conflicts:
        return
    assert contents(store, merged.metarange) == expected
    assert list(problems_of(store, merged.metarange)) == []
    changed = {
        one.key.decode(): text_of(one.right_value) for one in told if isinstance(one, RawChange)
    }
    before = side(states, 2)
    assert changed == {
        key: expected.get(key)
        for key in before.keys() | expected.keys()
        if before.get(key) != expected.get(key)
    }
    assert merged.whole == tuple(f"{unit}_delta_log".encode() for unit in folders(states))


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(PATHS, STATES | STILL, max_size=14),
    st.dictionaries(PATHS, st.sampled_from("XABC"), max_size=6),
    SPLITTINGS,
    st.sampled_from(STRATEGIES),
)
def test_tables_in_a_merge_done_again(states, moved, splitting, strategy):
    store = new_store()
    base, source, dest = grow(store, states, splitting)
    done = merge(store, base, source, dest, strategy=strategy, splitting=splitting)
    if done.conflicts or done.whole:
        return
    after = {key: text for key, text in (side(states, 2) | moved).items() if text != "X"}
    now = apply(store, dest, between(side(states, 2), after), splitting).metarange
    at_once = merge(store, base, source, now, strategy=strategy, splitting=splitting)
    again = merge(
        store,
        base,
        source,
        now,
        strategy=strategy,
        splitting=splitting,
        earlier=Earlier(dest, done.metarange),
    )
    assert again.conflicts == at_once.conflicts
    assert again.whole == at_once.whole
    if not again.conflicts:
        assert contents(store, again.metarange) == contents(store, at_once.metarange)


def test_a_log_over_many_ranges_is_torn_without_a_common_path():
    forest = Forest()
    log = dict.fromkeys((f"{LOG}{number:02}" for number in range(40)), "1")
    trees = [
        apply(forest.fresh(), EMPTY_METARANGE, between({}, side), CRUMBS).metarange
        for side in (log, log | {f"{LOG}00": "s"}, log | {f"{LOG}39": "d"})
    ]
    base, source, dest = trees
    for earlier in (None, Earlier(base, source)):
        merged = merge(forest.fresh(), *trees, splitting=CRUMBS, earlier=earlier)
        assert merged.conflicts == (RawConflict(b"t/_delta_log", None, None, None),)
    settled = merge(forest.fresh(), *trees, splitting=CRUMBS, strategy="dest-wins")
    assert forest.contents(settled.metarange) == forest.contents(dest)
    assert settled.whole == (b"t/_delta_log",)


def test_a_table_that_one_side_deleted_and_one_appended_to():
    forest = Forest()
    base = forest.tree(f"{LOG}0 t/a")
    source = forest.tree(f"{LOG}0 {LOG}1 t/a t/b")
    dest = forest.tree("u")
    merged = merge(forest.fresh(), base, source, dest, splitting=WHOLE)
    assert [conflict.key for conflict in merged.conflicts] == [b"t/_delta_log"]
    for strategy, result in (("source-wins", f"{LOG}0 {LOG}1 t/a t/b u"), ("dest-wins", "u")):
        merged = merge(forest.fresh(), base, source, dest, strategy=strategy, splitting=WHOLE)
        assert forest.contents(merged.metarange) == dict.fromkeys(result.split(), "1")


def test_a_resolver_is_asked_about_a_table_once_and_not_by_path():
    forest = Forest()
    base = forest.tree(f"a {LOG}0 t/a")
    source = forest.tree(f"a=s {LOG}0 {LOG}1=s t/a=s")
    dest = forest.tree(f"a=d {LOG}0 {LOG}1=d t/a=d")
    asked = []

    def whole(name):
        asked.append(name)
        return "dest-wins"

    merged = merge(
        forest.fresh(),
        base,
        source,
        dest,
        splitting=WHOLE,
        strategy="source-wins",
        whole=whole,
    )
    assert asked == [b"t/_delta_log"]
    assert forest.contents(merged.metarange) == {
        "a": "s",
        f"{LOG}0": "1",
        f"{LOG}1": "d",
        "t/a": "d",
    }


@pytest.mark.parametrize(
    ("key", "log"),
    [
        (b"_delta_log/0", b"_delta_log/"),
        (b"a/_delta_log/0", b"a/_delta_log/"),
        (b"a/_delta_log/b/_delta_log/0", b"a/_delta_log/"),
        (b"a_delta_log/0", None),
        (b"a_delta_log/_delta_log/0", b"a_delta_log/_delta_log/"),
        (b"a/_delta_log", None),
        (b"a/b", None),
    ],
)
def test_which_log_a_path_is_in(key, log):
    assert log_of(key) == log


def test_ranges_of_one_side_are_not_opened_for_tables():
    forest = Forest()
    base = forest.tree("a b", f"s {LOG}0 u", "x y")
    source = forest.tree("a b", f"s {LOG}0 {LOG}1 u", "x y")
    dest = forest.tree("a b", f"s {LOG}0 u", "x y=d")
    store = forest.fresh()
    merged = merge(store, base, source, dest, splitting=WHOLE)
    assert forest.ranges(merged.metarange) == ["a b", f"s {LOG}0 {LOG}1 u", "x y=d"]
    assert store.stats.ranges_read == 0
