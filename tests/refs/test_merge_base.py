"""The best common ancestors: known shapes, and random histories against brute force and git."""

from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from graveler.kv.drivers.memory import MemoryKVStore
from graveler.refs.commits import Commits
from graveler.refs.history import is_ancestor, line_outside, log, merge_bases, outside
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
def test_the_history_of_two_commits_is_as_defined(made, data):
    names = sorted(made.ids)
    left, right = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    assert made.bases(left, right) == set(made.best([left], right))
    known = is_ancestor(made.commits, made.ids[left], made.ids[right])
    assert known == (left in made.ancestors(right))

    line = [left]
    while made.parents[line[-1]]:
        line.append(made.parents[line[-1]][0])
    order = log(made.commits, made.ids[left], first_parent=True)
    assert [commit.message for commit in order] == line
    expected = [name for name in line if name not in made.ancestors(right)]
    order = line_outside(made.commits, made.ids[left], made.ids[right])
    assert [commit.message for commit in order] == expected
    order = outside(made.commits, made.ids[left], made.ids[right])
    expected = made.ancestors(left) - made.ancestors(right)
    assert sorted(commit.message for commit in order) == sorted(expected)

    names_of = [commit.message for commit in log(made.commits, made.ids[left])]
    assert sorted(names_of) == sorted(made.ancestors(left))
    for position, child in enumerate(names_of):
        assert not set(made.parents[child]) & set(names_of[:position])

    several = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=4))
    ids = [made.ids[name] for name in several]
    alone = {commit.message for commit in merge_bases(made.commits, ids, made.ids[right])}
    made.add("virtual", *several)  # several commits stand for the merge of them
    assert alone == set(made.best(["virtual"], right))


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
    """The comparison covers 8 random histories of 40 commits, with 25 pairs each."""
    git = Git(tmp_path)
    dice = Random(7)
    for _ in range(8):
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
