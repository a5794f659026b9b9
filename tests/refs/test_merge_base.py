"""The best common ancestors: known shapes, and random histories against brute force and git."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.kv.memory import MemoryKVStore
from graveler.refs.commits import Commits
from graveler.refs.history import is_ancestor, line_outside, log, merge_bases
from graveler.testing.clock import SequenceIds
from tests.harness.git import Git
from tests.harness.merge_model import MergeModel

START = datetime(2013, 1, 1, tzinfo=UTC)


class CountedKV(MemoryKVStore):
    """Counts the reads of single keys."""

    reads = 0

    def get(self, partition, key):
        self.reads += 1
        return super().get(partition, key)


class Graph(MergeModel):
    """Commits by short names: ``add("c", "a", "b")`` is a merge of a and b."""

    def __init__(self):
        self.kv = CountedKV()
        self.commits = Commits(self.kv, "refs:x")
        self.ids = {}
        self.parents = {}

    def add(self, name, *parents, at=0):
        commit = self.commits.add(
            metarange="0" * 64,
            parents=tuple(self.ids[parent] for parent in parents),
            message=name,
            committer="",
            created=START + timedelta(seconds=at or len(self.ids)),
            metadata={},
        )
        self.ids[name], self.parents[name] = commit.id, parents
        return commit

    def bases(self, left, right):
        found = merge_bases(self.commits, self.ids[left], self.ids[right])
        order = [(-commit.generation, commit.id) for commit in found]
        assert order == sorted(order)
        return {commit.message for commit in found}


def graph(*lines):
    made = Graph()
    for line in lines:
        made.add(*line.split())
    return made


@pytest.mark.parametrize(
    ("lines", "left", "right", "expected"),
    [
        (("0", "1 0", "2 1", "3 2", "4 0", "5 4", "6 5"), "3", "6", {"0"}),
        (("0", "1 0", "2 1", "3 2", "4 2"), "3", "4", {"2"}),
        (("0", "1 0", "2 0", "3 1 2", "4 2 1"), "3", "4", {"1", "2"}),
        (("0", "1 0", "2 1"), "2", "1", {"1"}),
        (("0", "1"), "0", "1", set()),
        (("0", "2", "1 0 2", "3 1", "4 2"), "3", "4", {"2"}),
        (("1", "2 1", "3 2", "4 3", "x 4 1", "y 2"), "x", "y", {"2"}),
        (("s", "a s", "b s", "c b", "d c", "e d", "f e", "h f", "g b e", "i h a"), "g", "i", {"e"}),
        (("a", "b a", "c b", "d c", "e d", "f e", "g b", "h a"), "g", "f", {"b"}),
        (("0", "1 0"), "1", "1", {"1"}),
    ],
    ids=[
        "two-arms",
        "fork",
        "criss-cross",
        "parent",
        "disjoint",
        "second-root",
        "shortcut",
        "long-arm",
        "chain",
        "same",
    ],
)
def test_the_known_shapes(lines, left, right, expected):
    made = graph(*lines)
    assert made.bases(left, right) == expected
    assert made.bases(right, left) == expected


def test_the_example_of_git():
    # g merges b and e, h merges a and f; b is their best common ancestor
    made = graph("a", "b a", "c a", "d b", "e a", "f b", "g b e", "h a f")
    assert made.bases("g", "h") == {"b"}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("7-4", "5-6", "5-4"), ("1-2", "2-1", "1-1"), ("0-9", "9-0", "0-0"), ("6-9", "9-6", "6-6")],
)
def test_a_grid(left, right, expected):
    made = Graph()
    for row in range(10):
        for column in range(10):
            above = [f"{row - 1}-{column}"] if row else []
            before = [f"{row}-{column - 1}"] if column else []
            made.add(f"{row}-{column}", *above, *before)
    assert made.bases(left, right) == {expected}


def test_clocks_do_not_matter():
    made = Graph()
    made.add("root", at=1_000_000)
    made.add("one", "root", at=5)
    made.add("two", "root", at=900)
    made.add("merge", "one", "two", at=1)
    made.add("late", "two", at=2)
    assert made.bases("merge", "late") == {"two"}


@st.composite
def histories(draw):
    """Draw a graph of up to twelve commits, with several roots and octopus merges."""
    made = Graph()
    for number in range(draw(st.integers(2, 12))):
        earlier = [str(other) for other in range(number)]
        parents = (
            draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if number else []
        )
        made.add(str(number), *parents, at=draw(st.integers(1, 20)) * 100 + number)
    return made


@given(histories(), st.data())
def test_they_are_all_the_best_by_definition(made, data):
    names = st.sampled_from(sorted(made.ids))
    left, right = data.draw(names), data.draw(names)
    assert made.bases(left, right) == set(made.best([left], right))


@given(histories(), st.data())
def test_several_commits_stand_for_the_merge_of_them(made, data):
    names = sorted(made.ids)
    several = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=4))
    right = data.draw(st.sampled_from(names))
    ids = [made.ids[name] for name in several]
    alone = {commit.message for commit in merge_bases(made.commits, ids, made.ids[right])}
    made.add("virtual", *several)
    assert alone == set(made.best(["virtual"], right))


@given(histories(), st.data())
def test_a_line_ends_where_the_other_side_has_it(made, data):
    names = st.sampled_from(sorted(made.ids))
    start, other = data.draw(names), data.draw(names)
    line = [start]
    while made.parents[line[-1]]:
        line.append(made.parents[line[-1]][0])
    expected = [name for name in line if name not in made.ancestors(other)]
    found = line_outside(made.commits, made.ids[start], made.ids[other])
    assert [commit.message for commit in found] == expected


def test_what_lies_below_the_bases_is_not_walked():
    made = Graph()
    made.add("root")
    made.add("other root")
    last = "root"
    for number in range(500):
        made.add(f"old {number}", last)
        last = f"old {number}"
    made.add("left", last, "other root")
    made.add("right", last)
    made.commits = Commits(made.kv, "refs:x")
    made.kv.reads = 0
    assert made.bases("left", "right") == {last}
    assert made.kv.reads == 4  # the two commits, their common ancestor, and the other root


def test_git_finds_the_same(tmp_path):
    """The comparison covers 20 random histories of 40 commits, with 25 pairs each."""
    git = Git(tmp_path)
    dice = Random(7)
    for _ in range(20):
        made = Graph()
        for number in range(40):
            window = [
                str(other) for other in range(max(0, number - dice.choice([3, 6, 40])), number)
            ]
            parents = dice.sample(window, min(len(window), dice.choice([0, 1, 1, 2, 2, 2, 3])))
            made.add(str(number), *parents, at=dice.randrange(1, 50))
        times = {
            name: int(made.commits.get(identifier).created.timestamp())
            for name, identifier in made.ids.items()
        }
        ids = git.add(made.parents, times)
        names = sorted(made.ids)
        pairs = [(dice.choice(names), dice.choice(names[20:])) for _ in range(25)]
        for left, right in pairs:
            assert made.bases(left, right) == git.bases(ids, left, right)


@given(histories(), st.data())
def test_ancestry_is_what_the_parents_say(made, data):
    names = st.sampled_from(sorted(made.ids))
    left, right = data.draw(names), data.draw(names)
    known = is_ancestor(made.commits, made.ids[left], made.ids[right])
    assert known == (left in made.ancestors(right))


@given(histories())
def test_a_log_has_every_ancestor_once_and_children_first(made):
    for name, identifier in made.ids.items():
        order = [commit.message for commit in log(made.commits, identifier)]
        assert sorted(order) == sorted(made.ancestors(name))
        for position, child in enumerate(order):
            assert not set(made.parents[child]) & set(order[:position])


@given(histories())
def test_a_first_parent_log_follows_the_main_line(made):
    for name, identifier in made.ids.items():
        line = [name]
        while made.parents[line[-1]]:
            line.append(made.parents[line[-1]][0])
        order = [commit.message for commit in log(made.commits, identifier, first_parent=True)]
        assert order == line


def test_ids_are_functions_of_content():
    one, two = Graph(), Graph()
    assert one.add("a").id == two.add("a").id
    assert one.add("b", "a").id != two.add("b").id
    assert SequenceIds().unique() == SequenceIds().unique()
