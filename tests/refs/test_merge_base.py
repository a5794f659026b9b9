"""The best common ancestor: the known shapes, and random histories against brute force."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.clock import SequenceIds
from graveler.kv.memory import MemoryKVStore
from graveler.refs import Commits, is_ancestor, log, merge_base

START = datetime(2013, 1, 1, tzinfo=UTC)


class Graph:
    """Commits by short names: ``add("c", "a", "b")`` is a merge of a and b."""

    def __init__(self):
        self.commits = Commits(MemoryKVStore(), "refs:x")
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

    def base(self, left, right):
        found = merge_base(self.commits, self.ids[left], self.ids[right])
        return None if found is None else found.message

    def ancestors(self, name):
        found, pending = set(), [name]
        while pending:
            here = pending.pop()
            if here not in found:
                found.add(here)
                pending += self.parents[here]
        return found

    def best(self, left, right):
        """All best common ancestors, by the definition."""
        common = self.ancestors(left) & self.ancestors(right)
        return {
            name
            for name in common
            if not any(name in self.ancestors(other) for other in common - {name})
        }


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
        (("0", "1"), "0", "1", {None}),
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
    assert made.base(left, right) in expected
    assert made.base(right, left) == made.base(left, right)


def test_the_example_of_git():
    # g merges b and e, h merges a and f; b is the best both have
    made = graph("a", "b a", "c a", "d b", "e a", "f b", "g b e", "h a f")
    assert made.base("g", "h") == "b"


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
    assert made.base(left, right) == expected


def test_clocks_do_not_matter():
    made = Graph()
    made.add("root", at=1_000_000)
    made.add("one", "root", at=5)
    made.add("two", "root", at=900)
    made.add("merge", "one", "two", at=1)
    made.add("late", "two", at=2)
    assert made.base("merge", "late") == "two"


@st.composite
def histories(draw):
    """A random graph of up to twelve commits, several roots and octopus merges among them."""
    made = Graph()
    for number in range(draw(st.integers(2, 12))):
        earlier = [str(other) for other in range(number)]
        parents = (
            draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if number else []
        )
        made.add(str(number), *parents, at=draw(st.integers(1, 20)) * 100 + number)
    return made


@given(histories(), st.data())
def test_it_is_one_of_the_best_by_definition(made, data):
    names = st.sampled_from(sorted(made.ids))
    left, right = data.draw(names), data.draw(names)
    best = made.best(left, right)
    assert made.base(left, right) in (best or {None})


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
