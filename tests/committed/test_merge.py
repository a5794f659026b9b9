from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.apply import apply
from graveler.committed.bases import CONFLICT
from graveler.committed.merge import Merged, RawConflict, merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import InvalidInputError
from tests.committed.drawing import KEYS, NAMES, SPLITTINGS, assert_sound, edited, grown, wide
from tests.committed.trees import CRUMBS, WHOLE, Forest, between, new_store, value

STRATEGIES = (None, "source-wins", "dest-wins")

STATES = ("X", "A@1", "A@2", "B@1", "B@2", "C")
"""X stands for no file; a content may have an address."""


def same(one, other):
    return one.partition("@")[0] == other.partition("@")[0]


def oracle(states, strategy=None):
    """Return the record of a path by its states in base, source and destination."""
    base, source, dest = states
    if source == base:
        return dest
    if dest == base:
        return source
    if same(source, dest) or same(source, base):
        return dest
    if same(base, dest):
        return source
    return {None: "conflict", "source-wins": source, "dest-wins": dest}[strategy]


COMBINATIONS = {f"k{n:03}": states for n, states in enumerate(product(STATES, repeat=3))}


def lay(forest, states, alone):
    """Return a tree in one range, or with one range for each path."""
    items = [f"{key}={state}" for key, state in sorted(states.items()) if state != "X"]
    if alone:
        return forest.tree(*items)
    return forest.tree(" ".join(["a=1", *items, "z=1"]))


def laid(forest, combinations, alone):
    """Return the trees of base, source and destination."""
    return [
        lay(forest, {key: states[side] for key, states in combinations.items()}, alone)
        for side in range(3)
    ]


@pytest.mark.parametrize("alone", [True, False], ids=["range each", "one range"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_combination_of_states_follows_the_rule(strategy, alone):
    wanted = {key: oracle(states, strategy) for key, states in COMBINATIONS.items()}
    wanted = {key: state for key, state in wanted.items() if state != "conflict"}
    forest = Forest()
    trees = laid(forest, {key: COMBINATIONS[key] for key in wanted}, alone)
    merged = merge(forest.fresh(), *trees, strategy=strategy, splitting=WHOLE)
    assert merged.conflicts == ()
    found = forest.contents(merged.metarange)
    assert {key: found.get(key, "X") for key in wanted} == wanted
    assert len(wanted) == (216 if strategy else 144)


@pytest.mark.parametrize("alone", [True, False], ids=["range each", "one range"])
def test_without_a_strategy_every_conflict_is_named(alone):
    forest = Forest()
    trees = laid(forest, COMBINATIONS, alone)
    before = {info.key for info in forest.objects.list()}
    store = forest.fresh()
    merged = merge(store, *trees, splitting=WHOLE)
    assert merged.metarange == ""
    assert list(merged.conflicts) == [
        RawConflict(key.encode(), *(None if state == "X" else value(state) for state in states))
        for key, states in COMBINATIONS.items()
        if oracle(states) == "conflict"
    ]
    assert {info.key for info in forest.objects.list()} == before
    assert (store.stats.ranges_written, store.stats.metaranges_written) == (0, 0)


# (base, source, dest, result, ranges opened). A merge by whole ranges opens none.
# "cut": the result takes the ranges of the only side that changed, and so keeps the cuts of
# that side, also where bounds differ.
TABLE = {
    "dest range added": ("c f | m n", "c f", "a b | c f | m n", "a b | c f", 0),
    "source range added": ("c f | g h", "a b | c f | g h", "c f", "a b | c f", 0),
    "source range removed": ("a b | c f | m n", "c f | m n", "a b | c f", "c f", 0),
    "source inner change": ("a c | d", "a b=s c=s | d", "a c", "a b=s c=s", 0),
    "dest inner change": ("a c | m n", "a c", "a b=d c=d | m n", "a b=d c=d", 0),
    "append and remove after, cut": (
        "a c | d f | m n",
        "a b=s c d e=s",
        "a c | d f | m n",
        "a b=s c d e=s",
        0,
    ),
    "source overlapping, cut": (
        "a c e f | m n",
        "a c d=s e=s f i=s | m n",
        "a c e f",
        "a c d=s e=s f i=s",
        0,
    ),
    "dest overlapping, cut": (
        "a c e f | m n",
        "a c e f",
        "a c d=d e=d f i=d | m n",
        "a c d=d e=d f i=d",
        0,
    ),
    "both added a key": ("a f", "a b=s f", "a c=d f", "a b=s c=d f", 3),
    "source key removed": ("a b | c d e f | m", "a b | c f | m", "a b | c d e f", "a b | c f", 0),
    "other bounds, cut": ("a b | c d e f", "a b | c e", "a b | c d e f | m", "a b | c e | m", 0),
    "dest key removed": ("a b | c d e f", "a b | c d e f | m", "a b | c f", "a b | c f | m", 0),
    "dest range replaced": ("a b c d e", "c d", "f g", "f g", 2),
    "both changed identities": ("b c | d e", "a b d | e=s", "b c | d=d e", "a b d=d e=s", 6),
    "dest removed all, source added": ("a d", "a b c d", "", "b c", 2),
    "same content under a new key": ("a=a d", "a=a b=a c", "a=a d=2", "conflict", 3),
    "source range before base": ("c d", "a b", "", "a b", 0),
    "other key and identity": ("a c d", "a b d", "", "b", 2),
    "shared first range": ("a b | d f", "a b | c e", "", "c e", 2),
    "source keys before a dest range": ("a b c d", "a b | c d", "b c | e f", "b c | e f", 3),
    "dest keys before a source range": ("a b c d", "b c | e f", "a b | c d", "b c | e f", 4),
    "dest range before a source key": ("c", "a d", "a | b | c", "a | b d", 5),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_merges(case):
    *sides, expected, opened = TABLE[case]
    forest = Forest()
    trees = [forest.tree(side) for side in sides]
    store = forest.fresh()
    merged = merge(store, *trees, splitting=WHOLE)
    if expected == "conflict":
        assert merged.conflicts
    else:
        assert forest.text(merged.metarange) == expected
    assert store.stats.ranges_read == opened
    if opened == 0:
        assert store.stats.ranges_written == 0


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
    base = wide(forest)
    # keys 3 apart may share a range of about 3 records; the distant keys cannot
    source = edited(forest, base, k0100="s", k0200="s")
    dest = edited(forest, base, k0200="d", k0300="d")
    store = forest.fresh()
    merged = merge(store, base, source, dest, strategy="source-wins", splitting=CRUMBS)
    changed = {"k0100": "s", "k0200": "s", "k0300": "d"}
    assert forest.contents(merged.metarange) == dict.fromkeys(NAMES, "1") | changed
    assert (store.stats.metaranges_read, store.stats.ranges_read) == (3, 3)
    assert (store.stats.metaranges_written, store.stats.ranges_written) == (1, 0)


def test_a_resolver_is_asked_path_by_path_before_the_strategy():
    forest = Forest()
    base = forest.tree("a b c d e")
    source = forest.tree("a=s b=s c=s d=s e=s")
    dest = forest.tree("a=d b=d c=d d=d e")
    asked = []

    def resolve(key, before, ours, theirs):
        asked.append((key, before, ours, theirs))
        return {b"a": value("new"), b"b": None, b"c": theirs}.get(key, CONFLICT)

    trees = base, source, dest
    rules: dict[str, Any] = {"resolve": resolve, "splitting": WHOLE}
    merged = merge(forest.fresh(), *trees, strategy="source-wins", **rules)
    assert forest.text(merged.metarange) == "a=new c=d d=s e=s"
    assert asked == [(key, value("1"), value("s"), value("d")) for key in (b"a", b"b", b"c", b"d")]
    open_ended = merge(forest.fresh(), *trees, **rules)
    assert [conflict.key for conflict in open_ended.conflicts] == [b"d"]


def test_an_unknown_strategy_is_refused():
    trees = [EMPTY_METARANGE] * 3
    with pytest.raises(InvalidInputError, match="ours"):
        merge(new_store(), *trees, strategy="ours", splitting=WHOLE)


STILL = st.sampled_from("XABC").map(lambda state: (state, state, state))
MOVED = st.lists(st.sampled_from("XABC"), min_size=3, max_size=3).map(tuple)


@settings(max_examples=60)
@given(st.dictionaries(KEYS, MOVED | STILL, max_size=30), SPLITTINGS, st.sampled_from(STRATEGIES))
def test_a_merge_is_what_three_dicts_say(states, splitting, strategy):
    store = new_store()
    base, source, dest = (
        {key: state[side] for key, state in states.items() if state[side] != "X"}
        for side in range(3)
    )
    first = grown(store, [base], splitting)
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
        expected = {key: result for key, result in results.items() if result != "X"}
        assert_sound(store, merged.metarange, expected, splitting)
