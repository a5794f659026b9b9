"""Tables merge as units: a log of Delta Lake makes its folder a unit."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import apply
from graveler.committed.diff import RawChange
from graveler.committed.merge import Earlier, RawConflict, merge, merge_changes
from graveler.committed.units import log_of, units_of
from tests.committed.drawing import SPLITTINGS, assert_sound, grown
from tests.committed.trees import WHOLE, Forest, between, contents, new_store, text_of

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


def side(states, place):
    return {key: state[place] for key, state in states.items() if state[place] != "X"}


def grow(store, states, splitting):
    base = grown(store, [side(states, 0)], splitting)
    return base, *(
        apply(store, base, between(side(states, 0), side(states, place)), splitting).metarange
        for place in (1, 2)
    )


@settings(max_examples=60)
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
    assert_sound(store, merged.metarange, expected, splitting)
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


@settings(max_examples=50)
@given(
    st.dictionaries(PATHS, STATES | STILL, max_size=14),
    st.dictionaries(PATHS, st.sampled_from("XABC"), max_size=6),
    SPLITTINGS,
    st.sampled_from(STRATEGIES),
)
def test_tables_in_a_merge_done_again(states, moved, splitting, strategy):
    store, rules = new_store(), {"strategy": strategy, "splitting": splitting}
    base, source, dest = grow(store, states, splitting)
    done = merge(store, base, source, dest, **rules)
    if done.conflicts or done.whole:
        return
    after = {key: text for key, text in (side(states, 2) | moved).items() if text != "X"}
    now = apply(store, dest, between(side(states, 2), after), splitting).metarange
    at_once = merge(store, base, source, now, **rules)
    earlier = Earlier(dest, done.metarange)
    again = merge(store, base, source, now, earlier=earlier, **rules)
    assert again.conflicts == at_once.conflicts
    assert again.whole == at_once.whole
    if not again.conflicts:
        assert contents(store, again.metarange) == contents(store, at_once.metarange)


def test_a_resolver_is_asked_about_a_table_once_and_not_by_path():
    forest = Forest()
    base = forest.tree(f"a {LOG}0 t/a")
    source = forest.tree(f"a=s {LOG}0 {LOG}1=s t/a=s")
    dest = forest.tree(f"a=d {LOG}0 {LOG}1=d t/a=d")
    asked = []

    def whole(name):
        asked.append(name)
        return "dest-wins"

    rules: dict[str, Any] = {"strategy": "source-wins", "whole": whole, "splitting": WHOLE}
    merged = merge(forest.fresh(), base, source, dest, **rules)
    assert asked == [b"t/_delta_log"]
    assert forest.text(merged.metarange) == f"a=s {LOG}0 {LOG}1=d t/a=d"


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
