"""A merge by separate slices gives the tree and the conflicts of a merge by one process."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.bases import CONFLICT, Base, Bases
from graveler.committed.merge import Earlier, merge, merge_slice
from graveler.committed.merge_slices import Tasks
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import DIRECTORY, HASH, Splitting
from tests.committed.trees import between, new_store

POLICIES = [
    Splitting(HASH, max_bytes=400, raggedness=2, hard=2),
    Splitting(HASH, min_bytes=150, max_bytes=600, raggedness=2, hard=2),
    Splitting(DIRECTORY, max_bytes=600, raggedness=2, hard=2, hard_directories=3),
    Splitting(DIRECTORY, max_bytes=200, raggedness=1, hard=3, hard_directories=2),
]
STRATEGIES = (None, "source-wins", "dest-wins")


class Cluster:
    """Runs each slice twice, in any order, each time with its own store.

    Attributes:
        slices: The number of slices of each run.
        ranges_read: Ranges that the tasks opened in the second pass of the last run.
    """

    def __init__(self, store, random, **settled):
        self._objects = store.objects
        self._random = random
        self._settled = settled
        self.slices: list[int] = []
        self.ranges_read = 0

    def run(self, order, slices):
        self.slices.append(len(slices))
        numbers = list(range(len(slices)))
        made = {}
        for _ in range(2):
            self._random.shuffle(numbers)
            self.ranges_read = 0
            for number in numbers:
                store = new_store(self._objects)
                made[number] = merge_slice(store, order, slices[number], **self._settled)
                self.ranges_read += store.stats.ranges_read
        return [made[number] for number in range(len(slices))]


def by_tasks(store, trees, splitting, share, *, random, whole=None, earlier=None, **settled):
    """Merge by one process and by tasks, compare, and return the tasks' result and cluster."""
    expected = merge(
        new_store(store.objects),
        *trees,
        splitting=splitting,
        whole=whole,
        earlier=earlier,
        **settled,
    )
    cluster = Cluster(store, random, **settled)
    found = merge(
        store,
        *trees,
        splitting=splitting,
        whole=whole,
        earlier=earlier,
        tasks=Tasks(cluster.run, share),
        **settled,
    )
    assert found == expected
    return found, cluster


def grown(store, tree, before, states, policies):
    """Return the tree after one commit for each state, each commit with its own policy."""
    for after, splitting in zip(states, policies, strict=False):
        tree = apply(store, tree, between(before, after), splitting).metarange
        before = after
    return tree


def changed(state, changes):
    merged = state | changes
    return {key: text for key, text in merged.items() if text != "X"}


def resolver(random_answers):
    """Return a function that decides conflicts by their keys: a side, a deletion or nothing."""

    def resolve(key, _base, source, dest):
        return (source, dest, None, CONFLICT)[(sum(key) + random_answers) % 4]

    return resolve


PATHS = st.one_of(
    st.text("ab/", min_size=1, max_size=6),
    st.sampled_from(["t/_delta_log/", "a/_delta_log/"]).flatmap(
        lambda log: st.integers(0, 9).map(lambda number: f"{log}{number}")
    ),
    st.sampled_from(["t/a", "t/z", "a/_delta"]),
)
STATES = st.dictionaries(PATHS, st.sampled_from("AB"), max_size=40)
CHANGES = st.dictionaries(PATHS, st.sampled_from("ABX"), max_size=30)


@settings(max_examples=100)
@given(
    st.lists(STATES, min_size=1, max_size=3),
    st.lists(CHANGES, min_size=1, max_size=2),
    st.lists(CHANGES, min_size=1, max_size=2),
    CHANGES,
    st.lists(st.sampled_from(POLICIES), min_size=6, max_size=6),
    st.booleans(),
    st.sampled_from(STRATEGIES),
    st.sampled_from([None, 0, 1, 2, 3]),
    st.sampled_from([1, 2, 3, 8]),
    st.randoms(use_true_random=False),
)
def test_slices_of_a_merge_are_those_of_one_process(
    states, source, dest, later, policies, same, strategy, answers, tasks, random
):
    store = new_store()
    policies = policies[:1] * 6 if same else policies
    splitting, last = policies[-1], states[-1]
    base = grown(store, EMPTY_METARANGE, {}, states, policies)
    state = last
    trees = [base]
    for side in (source, dest):
        state, lines = last, []
        for changes in side:
            state = changed(state, changes)
            lines.append(state)
        trees.append(grown(store, base, last, lines, policies[3:]))
    infos = [info for tree in trees for info in metarange.read(store, tree)]
    share = max(1, sum(info.size for info in infos) // tasks)
    settled = {
        "strategy": strategy,
        "resolve": None if answers is None else resolver(answers),
        "random": random,
    }
    done, _ = by_tasks(store, trees, splitting, share, **settled)
    by_tasks(store, trees, splitting, 1, **settled)
    if done.metarange and not done.whole:
        moved = grown(store, trees[2], state, [changed(state, later)], policies)
        earlier = Earlier(trees[2], done.metarange)
        by_tasks(store, [*trees[:2], moved], splitting, 1, earlier=earlier, **settled)


@settings(max_examples=30)
@given(
    st.lists(CHANGES, min_size=2, max_size=2),
    STATES,
    st.sampled_from(STRATEGIES),
    st.randoms(use_true_random=False),
)
def test_units_are_settled_as_by_one_process(sides, base, strategy, random):
    store, splitting = new_store(), POLICIES[0]
    logs = {f"t/_delta_log/{number}": "A" for number in range(8)}
    state = base | logs
    trees = [grown(store, EMPTY_METARANGE, {}, [state], [splitting])]
    for number, side in zip("34", sides, strict=True):
        after = changed(state, side | {f"t/_delta_log/{number}": "C"})
        trees.append(grown(store, trees[0], state, [after], [splitting]))
    answers = {"t": "source-wins", "a": "dest-wins"}
    done, _ = by_tasks(
        store,
        trees,
        splitting,
        1,
        strategy=strategy,
        random=random,
        whole=lambda name: answers.get(name.decode()[0]),
    )
    assert b"t/_delta_log" in done.whole or done.conflict_count


def numbered(count, text="A"):
    return {f"{number:05}": text for number in range(count)}


def sides(store, splitting, source, dest, count=2_000):
    base = numbered(count)
    tree = grown(store, EMPTY_METARANGE, {}, [base], [splitting])
    return [
        tree,
        *(grown(store, tree, base, [changed(base, side)], [splitting]) for side in (source, dest)),
    ]


@pytest.mark.parametrize("splitting", POLICIES, ids=lambda rule: f"{rule.policy}-{rule.max_bytes}")
def test_a_merge_is_cut_into_many_slices(splitting):
    store = new_store()
    source = {f"{number:05}": "B" for number in range(0, 500, 5)}
    dest = {f"{number:05}": "C" for number in range(1, 500, 5)} | {"00003": "X"}
    trees = sides(store, splitting, source, dest, count=500)
    _, cluster = by_tasks(store, trees, splitting, 1, random=Random(1))
    assert len(cluster.slices) == 1
    assert cluster.slices[0] > 20
    size = sum(info.size for tree in trees for info in metarange.read(store, tree))
    counts = []
    for most in (1, 2, 3, 8):
        _, cluster = by_tasks(store, trees, splitting, size // most, random=Random(1))
        counts += cluster.slices
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[-1] in range(3, 10)


def test_what_differs_nowhere_is_opened_nowhere():
    store, splitting = new_store(), POLICIES[0]
    infos = metarange.read(store, sides(store, splitting, {}, {})[0])
    wide = [info for info in infos if info.count > 1]
    both, alone = (wide[100], wide[300]), (wide[50], wide[350])
    source = {info.min_key.decode(): "B" for info in (*both, alone[0])}
    dest = {info.max_key.decode(): "C" for info in (*both, alone[1])}
    trees = sides(store, splitting, source, dest)
    reading = new_store(store.objects)
    done, cluster = by_tasks(reading, trees, splitting, 1, random=Random(1))
    assert done.metarange
    assert cluster.slices == [2]
    assert reading.stats.ranges_read == 0
    assert 0 < cluster.ranges_read <= 12
    elsewhere = sides(store, splitting, {"00100": "B"}, {"01900": "C"})
    _, cluster = by_tasks(reading, elsewhere, splitting, 1, random=Random(1))
    assert cluster.slices == []


def test_a_resolver_that_deletes_the_end_of_a_slice_joins_two():
    store, splitting = new_store(), POLICIES[0]
    trees = sides(store, splitting, numbered(200, "B"), numbered(200, "C"), count=200)
    ends = metarange.read(store, trees[0]).keys()

    def resolve(key, _base, source, _dest):
        return None if key in ends[3::5] else source

    done, cluster = by_tasks(store, trees, splitting, 1, random=Random(1), resolve=resolve)
    assert done.metarange
    assert len(cluster.slices) > 1
    assert cluster.slices == sorted(cluster.slices, reverse=True)


def test_the_first_conflicts_of_all_slices_are_kept(monkeypatch):
    monkeypatch.setattr("graveler.committed.merge.SHOWN", 40)
    store, splitting = new_store(), POLICIES[0]
    trees = sides(store, splitting, numbered(100, "B"), numbered(100, "C"), count=100)
    done, cluster = by_tasks(store, trees, splitting, 2_000, random=Random(1))
    assert cluster.slices[0] > 3
    assert done.conflict_count == 100
    assert [conflict.key.decode() for conflict in done.conflicts] == list(numbered(40))


def test_few_bytes_are_merged_by_this_process():
    store, splitting = new_store(), POLICIES[0]
    trees = sides(store, splitting, numbered(9, "B"), numbered(9, "C"))
    settled: dict[str, Any] = {"strategy": "source-wins"}
    cluster = Cluster(store, Random(1), **settled)
    for least, runs in ((10**6, 0), (100, 1)):
        tasks = Tasks(cluster.run, 1, least)
        assert merge(store, *trees, splitting=splitting, tasks=tasks, **settled).metarange
        assert len(cluster.slices) == runs


def test_several_trees_of_bases_are_merged_by_this_process():
    store, splitting = new_store(), POLICIES[0]
    base, source, dest = sides(store, splitting, {"00500": "B"}, {"00500": "C"})
    bases = Bases((Base("1", base), Base("2", dest)), lambda _commits, _other: (Base("0", base),))
    cluster = Cluster(store, Random(1))
    trees = (bases, source, sides(store, splitting, {}, {"00500": "D"})[2])
    expected = merge(store, *trees, splitting=splitting)
    assert merge(store, *trees, splitting=splitting, tasks=Tasks(cluster.run, 1)) == expected
    assert cluster.slices == []
