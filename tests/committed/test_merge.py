from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import apply
from graveler.committed.bases import CONFLICT
from graveler.committed.merge import Merged, RawConflict, merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError
from tests.committed.trees import (
    CRUMBS,
    WHOLE,
    Forest,
    between,
    contents,
    new_store,
    problems_of,
    record,
    value,
)

STRATEGIES = (None, "source-wins", "dest-wins")

# The rule for one path: base, source, destination -> result. X stands for no file.
PATHS = {
    "AAA": "A",
    "ABB": "B",
    "ABC": "conflict",
    "AAB": "B",
    "ABA": "B",
    "AXX": "X",
    "ABX": "conflict",
    "AXB": "conflict",
    "AAX": "X",
    "AXA": "X",
    # the base has no file
    "XXX": "X",
    "XAX": "A",
    "XXA": "A",
    "XAA": "A",
    "XAB": "conflict",
}


def canonical(states):
    """Return the row of PATHS for three states, and the state of each of its letters."""
    names: dict[str, str] = {"X": "X"}
    for state in states:
        names.setdefault(state, "ABC"[len(names) - 1])
    return "".join(names[state] for state in states), {new: old for old, new in names.items()}


def oracle(states, strategy):
    row, originals = canonical(states)
    result = PATHS[row]
    if result == "conflict":
        if strategy is None:
            return "conflict"
        return states[1 if strategy == "source-wins" else 2]
    return originals[result]


COMBINATIONS = {f"k{''.join(states)}": states for states in product("XABC", repeat=3)}


def lay(forest, states, alone):
    """Return a tree in one range, or with one range for each path."""
    items = [f"{key}={state}" for key, state in sorted(states.items()) if state != "X"]
    if alone:
        return forest.tree(*items)
    return forest.tree(" ".join(["a=1", *items, "z=1"]))


@pytest.mark.parametrize("alone", [True, False], ids=["range each", "one range"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_combination_of_states_follows_the_rule(strategy, alone):
    chosen = {
        key: states
        for key, states in COMBINATIONS.items()
        if oracle(states, strategy) != "conflict"
    }
    forest = Forest()
    base, source, dest = (
        lay(forest, {key: states[side] for key, states in chosen.items()}, alone)
        for side in range(3)
    )
    merged = merge(forest.fresh(), base, source, dest, strategy=strategy, splitting=WHOLE)
    assert merged.conflicts == ()
    found = forest.contents(merged.metarange)
    assert {key: found.get(key, "X") for key in chosen} == {
        key: oracle(states, strategy) for key, states in chosen.items()
    }
    assert len(chosen) == (64 if strategy else 40)


@pytest.mark.parametrize("alone", [True, False], ids=["range each", "one range"])
def test_without_a_strategy_every_conflict_is_named(alone):
    forest = Forest()
    base, source, dest = (
        lay(forest, {key: states[side] for key, states in COMBINATIONS.items()}, alone)
        for side in range(3)
    )
    before = {info.key for info in forest.objects.list()}
    store = forest.fresh()
    merged = merge(store, base, source, dest, splitting=WHOLE)

    def raw(state):
        return None if state == "X" else value(state)

    assert merged.metarange == ""
    assert list(merged.conflicts) == [
        RawConflict(key.encode(), *map(raw, states))
        for key, states in sorted(COMBINATIONS.items())
        if oracle(states, None) == "conflict"
    ]
    assert {info.key for info in forest.objects.list()} == before
    assert (store.stats.ranges_written, store.stats.metaranges_written) == (0, 0)


# (base, source, dest, result ranges, ranges opened). A merge by whole ranges opens none.
# "cut": the result takes the ranges of the only side that changed, and so keeps the cuts of
# that side, also where bounds differ.
TABLE = {
    "dest range added before": (
        ["k3 k6", "m1 m2"],
        ["k3 k6"],
        ["k1 k2", "k3 k6", "m1 m2"],
        ["k1 k2", "k3 k6"],
        0,
    ),
    "source range added before": (
        ["k3 k6", "k7 k8"],
        ["k1 k2", "k3 k6", "k7 k8"],
        ["k3 k6"],
        ["k1 k2", "k3 k6"],
        0,
    ),
    "source range removed before": (
        ["k1 k2", "k3 k6", "m1 m2"],
        ["k3 k6", "m1 m2"],
        ["k1 k2", "k3 k6"],
        ["k3 k6"],
        0,
    ),
    "dest range removed": (
        ["k1 k2", "k3 k6", "m1 m2"],
        ["k1 k2", "k3 k6"],
        ["k3 k6", "m1 m2"],
        ["k3 k6"],
        0,
    ),
    "source inner change": (
        ["k1 k3", "k4"],
        ["k1 k2=s k3=s", "k4"],
        ["k1 k3"],
        ["k1 k2=s k3=s"],
        0,
    ),
    "dest inner change": (
        ["k1 k3", "m1 m2"],
        ["k1 k3"],
        ["k1 k2=d k3=d", "m1 m2"],
        ["k1 k2=d k3=d"],
        0,
    ),
    "source append after, cut": (
        ["k1 k3", "m1 m2"],
        ["k1 k3 k4=s k5=s", "m1 m2"],
        ["k1 k3"],
        ["k1 k3 k4=s k5=s"],
        0,
    ),
    "append and remove after, cut": (
        ["k1 k3", "k4 k6", "m1 m2"],
        ["k1 k2=s k3 k4 k5=s"],
        ["k1 k3", "k4 k6", "m1 m2"],
        ["k1 k2=s k3 k4 k5=s"],
        0,
    ),
    "source overlapping, cut": (
        ["k1 k3 k5 k6", "m1 m2"],
        ["k1 k3 k4=s k5=s k6 k9=s", "m1 m2"],
        ["k1 k3 k5 k6"],
        ["k1 k3 k4=s k5=s k6 k9=s"],
        0,
    ),
    "dest overlapping, cut": (
        ["k1 k3 k5 k6", "m1 m2"],
        ["k1 k3 k5 k6"],
        ["k1 k3 k4=d k5=d k6 k9=d", "m1 m2"],
        ["k1 k3 k4=d k5=d k6 k9=d"],
        0,
    ),
    "both added a key": (
        ["k1 k6"],
        ["k1 k2=s k6"],
        ["k1 k3=d k6"],
        ["k1 k2=s k3=d k6"],
        3,
    ),
    "source key removed, same bounds": (
        ["k1 k2", "k3 k4 k5 k6", "m1"],
        ["k1 k2", "k3 k6", "m1"],
        ["k1 k2", "k3 k4 k5 k6"],
        ["k1 k2", "k3 k6"],
        0,
    ),
    "source key removed, other bounds, cut": (
        ["k1 k2", "k3 k4 k5 k6"],
        ["k1 k2", "k3 k5"],
        ["k1 k2", "k3 k4 k5 k6", "m1"],
        ["k1 k2", "k3 k5", "m1"],
        0,
    ),
    "dest key removed": (
        ["k1 k2", "k3 k4 k5 k6"],
        ["k1 k2", "k3 k4 k5 k6", "m1"],
        ["k1 k2", "k3 k6"],
        ["k1 k2", "k3 k6", "m1"],
        0,
    ),
    "dest removed range, added after; source removed edges": (
        ["k1 k2 k3 k4 k5"],
        ["k3 k4"],
        ["k6 k7"],
        ["k6 k7"],
        2,
    ),
    "both changed identities": (
        ["b c", "d e"],
        ["a b d", "e=s"],
        ["b c", "d=d e"],
        ["a b d=d e=s"],
        6,
    ),
    "dest removed all, source added": (["a d"], ["a b c d"], [], ["b c"], 2),
    "same content under a new key": (
        ["a=a d"],
        ["a=a a1=a c"],
        ["a=a d=2"],
        "conflict",
        3,
    ),
    "dest removed all, source range before base": (["c d"], ["a b"], [], ["a b"], 0),
    "dest removed all, other key and identity": (["a a2 b"], ["a a1 b"], [], ["a1"], 2),
    "dest removed all, shared first range": (
        ["a b", "d f"],
        ["a b", "c e"],
        [],
        ["c e"],
        2,
    ),
    "source keys before a dest range": (
        ["a b c d"],
        ["a b", "c d"],
        ["b c", "e f"],
        ["b c", "e f"],
        3,
    ),
    "dest keys before a source range": (
        ["a b c d"],
        ["b c", "e f"],
        ["a b", "c d"],
        ["b c", "e f"],
        4,
    ),
    "dest range before a source key": (
        ["c"],
        ["a d"],
        ["a", "b", "c"],
        ["a", "b d"],
        5,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_merges(case):
    base, source, dest, expected, opened = TABLE[case]
    forest = Forest()
    trees = [forest.tree(*side) for side in (base, source, dest)]
    store = forest.fresh()
    merged = merge(store, *trees, splitting=WHOLE)
    if expected == "conflict":
        assert merged.conflicts
    else:
        assert forest.ranges(merged.metarange) == expected
    assert store.stats.ranges_read == opened
    if opened == 0:
        assert store.stats.ranges_written == 0


# base, source, dest, and the results of None, source-wins and dest-wins
BY_STRATEGY = {
    "dest removed all, source changed a": (["a b"], ["a=s b"], [], None, "a=s", ""),
    "change of the same range": (
        ["k1 k2 k3 k4 k5"],
        ["k3 k4=s"],
        ["k6 k7"],
        None,
        "k4=s k6 k7",
        "k6 k7",
    ),
    "dest changed a, source removed it and added": (
        ["a b"],
        ["c d"],
        ["a=d b"],
        None,
        "c d",
        "a=d c d",
    ),
    "source changed b, dest removed it": (
        ["a b c"],
        ["a b=s c"],
        ["a c"],
        None,
        "a b=s c",
        "a c",
    ),
    "dest changed b, source removed it": (
        ["a b c"],
        ["a c"],
        ["a b=d c"],
        None,
        "a c",
        "a b=d c",
    ),
    "each removed what the other changed": (
        ["a b c d"],
        ["a c=s d"],
        ["a b=d d"],
        None,
        "a c=s d",
        "a b=d d",
    ),
    "both changed b": (["a b c"], ["a b=s c"], ["a b=d c"], None, "a b=s c", "a b=d c"),
}


@pytest.mark.parametrize("case", BY_STRATEGY)
def test_a_strategy_decides_conflicts_and_nothing_else(case):
    base, source, dest, *results = BY_STRATEGY[case]
    forest = Forest()
    trees = [forest.tree(*side) for side in (base, source, dest)]
    for strategy, result in zip(STRATEGIES, results, strict=True):
        merged = merge(forest.fresh(), *trees, strategy=strategy, splitting=WHOLE)
        if result is None:
            assert (merged.metarange, bool(merged.conflicts)) == ("", True)
        else:
            assert " ".join(forest.ranges(merged.metarange)) == result


def test_a_side_that_did_not_move_costs_nothing():
    forest = Forest()
    base, other = forest.tree("a b"), forest.tree("a c")
    store = forest.fresh()
    assert merge(store, base, other, base, splitting=WHOLE) == Merged(other)
    assert merge(store, base, base, other, splitting=WHOLE) == Merged(other)
    assert merge(store, base, other, other, splitting=WHOLE) == Merged(other)
    assert store.stats == forest.fresh().stats


def test_a_merge_reads_three_metaranges_and_what_both_changed():
    forest = Forest()
    keys = [f"k{n:04d}" for n in range(1000)]
    base = apply(forest.fresh(), EMPTY_METARANGE, map(record, keys), CRUMBS).metarange
    # keys 3 apart may share a range of about 3 records; the distant keys cannot
    source = apply(
        forest.fresh(), base, [record("k0100", "s"), record("k0500", "s")], CRUMBS
    ).metarange
    dest = apply(
        forest.fresh(), base, [record("k0500", "d"), record("k0900", "d")], CRUMBS
    ).metarange
    store = forest.fresh()
    merged = merge(store, base, source, dest, strategy="source-wins", splitting=CRUMBS)
    assert forest.contents(merged.metarange) == {
        **dict.fromkeys(keys, "1"),
        "k0100": "s",
        "k0500": "s",
        "k0900": "d",
    }
    assert (store.stats.metaranges_read, store.stats.ranges_read) == (3, 3)
    assert (store.stats.metaranges_written, store.stats.ranges_written) == (1, 0)


def test_what_both_sides_changed_equally_is_not_written_again():
    forest = Forest()
    base = forest.tree("a b c", "d e f")
    source = forest.tree("a b=2 c", "d e f")
    dest = forest.tree("a b=2 c", "d e=d f")
    store = forest.fresh()
    merged = merge(store, base, source, dest, splitting=WHOLE)
    assert forest.ranges(merged.metarange) == forest.ranges(dest)
    assert (store.stats.ranges_read, store.stats.ranges_written) == (0, 0)


def test_a_resolver_is_asked_path_by_path_before_the_strategy():
    forest = Forest()
    base = forest.tree("a b c d e")
    source = forest.tree("a=s b=s c=s d=s e=s")
    dest = forest.tree("a=d b=d c=d d=d e")
    asked = []

    def resolve(key, before, ours, theirs):
        asked.append((key, before, ours, theirs))
        return {b"a": value("new"), b"b": None, b"c": theirs}.get(key, CONFLICT)

    merged = merge(
        forest.fresh(),
        base,
        source,
        dest,
        strategy="source-wins",
        resolve=resolve,
        splitting=WHOLE,
    )
    assert forest.ranges(merged.metarange) == ["a=new c=d d=s e=s"]
    assert asked == [(key, value("1"), value("s"), value("d")) for key in (b"a", b"b", b"c", b"d")]
    open_ended = merge(forest.fresh(), base, source, dest, resolve=resolve, splitting=WHOLE)
    assert [conflict.key for conflict in open_ended.conflicts] == [b"d"]


def test_an_unknown_strategy_is_refused():
    with pytest.raises(InvalidInputError, match="ours"):
        merge(
            new_store(),
            EMPTY_METARANGE,
            EMPTY_METARANGE,
            EMPTY_METARANGE,
            strategy="ours",
            splitting=WHOLE,
        )


KEYS = st.text("abc", min_size=1, max_size=4)
STATES = st.lists(st.sampled_from("XABC"), min_size=3, max_size=3).map("".join)
SPLITTINGS = st.builds(
    Splitting, max_bytes=st.sampled_from([100, 300, 10_000]), raggedness=st.integers(2, 5)
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(KEYS, STATES | st.just("AAA") | st.just("AAA"), max_size=30),
    SPLITTINGS,
    st.sampled_from(STRATEGIES),
)
def test_a_merge_is_what_three_dicts_say(states, splitting, strategy):
    store = new_store()
    base, source, dest = (
        {key: state[side] for key, state in states.items() if state[side] != "X"}
        for side in range(3)
    )
    first = apply(store, EMPTY_METARANGE, between({}, base), splitting).metarange
    ours = apply(store, first, between(base, source), splitting).metarange
    theirs = apply(store, first, between(base, dest), splitting).metarange
    before = {info.key for info in store.objects.list()}
    merged = merge(store, first, ours, theirs, strategy=strategy, splitting=splitting)
    results = {key: oracle(state, strategy) for key, state in states.items()}
    conflicts = sorted(key for key, result in results.items() if result == "conflict")
    assert [conflict.key.decode() for conflict in merged.conflicts] == conflicts
    if conflicts:
        assert merged.metarange == ""
        assert {info.key for info in store.objects.list()} == before
    else:
        assert contents(store, merged.metarange) == {
            key: result for key, result in results.items() if result != "X"
        }
        assert list(problems_of(store, merged.metarange)) == []


ADDRESSED = ["X", "A@1", "A@2", "B@1", "B@2"]


def same(one, other):
    return one.partition("@")[0] == other.partition("@")[0]


def addressed_oracle(base, source, dest):
    """Return the record of a path: X stands for no file, and @ precedes an address."""
    if source == base:
        return dest
    if dest == base:
        return source
    if same(source, dest) or same(source, base):
        return dest
    return source if same(base, dest) else "conflict"


@pytest.mark.parametrize("alone", [True, False], ids=["range each", "one range"])
def test_the_record_kept_does_not_depend_on_where_ranges_end(alone):
    combinations = product(ADDRESSED, repeat=3)
    states = {f"k{number:03}": states for number, states in enumerate(combinations)}
    wanted = {key: addressed_oracle(*of) for key, of in states.items()}
    forest = Forest()
    for conflicts in (False, True):
        chosen = {key: of for key, of in states.items() if conflicts or wanted[key] != "conflict"}
        base, source, dest = (
            lay(forest, {key: of[side] for key, of in chosen.items()}, alone) for side in range(3)
        )
        merged = merge(forest.fresh(), base, source, dest, splitting=WHOLE)
        if conflicts:
            assert [one.key.decode() for one in merged.conflicts] == [
                key for key in chosen if wanted[key] == "conflict"
            ]
            continue
        there = forest.contents(merged.metarange)
        assert {key: there.get(key, "X") for key in chosen} == {key: wanted[key] for key in chosen}
