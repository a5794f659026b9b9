"""One walk over all commits finds the bases of merges between any two heads."""

from datetime import UTC, datetime, timedelta
from itertools import combinations
from random import Random

import pytest

from graveler.committed.bases import LEVELS
from graveler.gc.reachability.graph import CommitGraph
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.model import Commit
from graveler.refs.refs import Refs
from graveler.testing.clock import FakeClock, SequenceIds

START = datetime(2013, 1, 1, tzinfo=UTC)


class CountedGraph(CommitGraph):
    """Counts the reads of commits."""

    looks = 0

    def get(self, identifier):
        self.looks += 1
        return super().get(identifier)


def graph_of(parents):
    """Return a graph and its ids, from the numbers of each commit's parents."""
    refs = Refs(MemoryKVStore(), "x", clock=FakeClock(), ids=SequenceIds())
    made: list[Commit] = []
    for number, these in enumerate(parents):
        above = tuple(made[parent] for parent in these)
        made.append(
            refs.commits.add(
                metarange="0" * 64,
                parents=tuple(one.id for one in above),
                message=str(number),
                committer="",
                created=START + timedelta(seconds=number),
                metadata={},
            )
        )
    return CountedGraph(refs), [one.id for one in made]


def bases_by_definition(parents, heads):
    """Return the heads, the best common ancestors of any two, of any two of these, and so on."""
    above: list[set[int]] = []
    for number, these in enumerate(parents):
        above.append({number}.union(*(above[parent] for parent in these)))
    found, fresh = set(heads), set(heads)
    while fresh:
        fresh = set()
        for left, right in combinations(sorted(found), 2):
            common = above[left] & above[right]
            fresh |= {one for one in common if not any(one in above[two] - {two} for two in common)}
        fresh -= found
        found |= fresh
    return found


def drawn_history(random, *, merges):
    """Return a history whose commits have near parents, so that branches fork, merge and cross."""
    parents = [()]
    for number in range(1, 24):
        near = range(max(0, number - 6), number)
        count = 2 if number > 1 and random.random() < merges else 1
        parents.append(tuple(random.sample(near, count)))
    return parents


@pytest.mark.parametrize("seed", range(20))
def test_no_base_of_a_merge_between_two_heads_is_missed(seed):
    random = Random(seed)
    parents = drawn_history(random, merges=seed % 6 / 6)
    heads = random.sample(range(24), 4)
    graph, ids = graph_of(parents)
    found = graph.merge_bases(ids[head] for head in heads)
    assert {ids[base] for base in bases_by_definition(parents, heads)} <= found


def test_a_ladder_is_kept_as_deep_as_a_merge_looks():
    rungs = 200
    parents = [(), (0,), (0,)]
    for _ in range(rungs):
        left, right = len(parents) - 2, len(parents) - 1
        parents += [(left, right), (right, left)]
    graph, ids = graph_of(parents)
    found = graph.merge_bases(ids[-2:])
    assert found == set(ids[-2 * (1 + LEVELS) :])


def test_every_commit_is_visited_once_for_any_number_of_heads():
    main = 400
    parents = [(), *((number,) for number in range(main))]
    parents += [(10 * number,) for number in range(40)]  # each tenth has a branch
    graph, ids = graph_of(parents)
    found = graph.merge_bases([ids[main], *ids[main + 1 :]])
    assert len(found) == 41 + 40
    assert graph.looks < 3 * len(ids)
