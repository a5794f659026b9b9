from dataclasses import replace

import pytest

from graveler.committed import metarange
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.verify import verify_range
from tests.committed.trees import WHOLE, Forest, problems_of, record


@pytest.fixture
def forest():
    return Forest()


def test_a_sound_tree_has_no_problems(forest):
    tree = forest.tree("a b", "c d")
    assert list(problems_of(forest.fresh(), tree)) == []
    assert list(problems_of(forest.fresh(), EMPTY_METARANGE)) == []


def test_a_damaged_and_a_missing_range_are_both_named(forest):
    tree = forest.tree("a b", "c d", "e f")
    store = forest.fresh()
    first, second, _ = metarange.read(store, tree)
    body = forest.objects.get(store.key(first.id))
    forest.objects.put(store.key(first.id), body[:40] + bytes([body[40] ^ 1]) + body[41:])
    forest.objects.delete(store.key(second.id))
    problems = list(problems_of(store, tree))
    assert [(problem.kind, problem.id) for problem in problems] == [
        ("range", first.id.hex()),
        ("range", second.id.hex()),
    ]


def test_the_store_is_looked_at_and_not_the_cache(forest):
    store = forest.fresh()
    with RangeWriter(store, WHOLE) as writer:
        writer.add_all([record("a")])
        (info,) = writer.finish()
    assert store.open(info.id).get(b"a")
    forest.objects.put(store.key(info.id), b"rubbish")
    assert [problem.id for problem in verify_range(store, info.id)] == [info.id.hex()]


def test_a_missing_or_damaged_metarange_is_one_problem(forest):
    tree = forest.tree("a b")
    store = forest.fresh()
    key = store.key(bytes.fromhex(tree))
    forest.objects.put(key, forest.objects.get(key)[:-1])
    assert [problem.kind for problem in problems_of(store, tree)] == ["metarange"]
    forest.objects.delete(key)
    assert [problem.kind for problem in problems_of(store, tree)] == ["metarange"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"min_key": b"0"}, "min_key"), ({"count": 7}, "count")],
)
def test_a_metarange_that_describes_a_range_wrongly_is_named(forest, wrong, named):
    store = forest.fresh()
    with RangeWriter(store, WHOLE) as writer:
        writer.add_all([record("a"), record("b")])
        (info,) = writer.finish()
    # the id of a tree covers only last keys and range ids, so no id detects the change
    tree = metarange.write(store, [replace(info, **wrong)])
    problems = list(problems_of(store, tree))
    assert [(problem.kind, problem.id) for problem in problems] == [("range", info.id.hex())]
    assert named in problems[0].message


def test_ranges_out_of_order_are_a_problem(forest):
    infos = metarange.read(forest.fresh(), forest.tree("a c", "e g"))
    overlapping = metarange.read(forest.fresh(), forest.tree("b d"))
    store = forest.fresh()
    tree = metarange.write(store, [infos[0], overlapping[0], infos[1]])
    problems = list(problems_of(store, tree))
    assert [(problem.kind, problem.id) for problem in problems] == [("metarange", tree)]
    assert "b'c'" in problems[0].message
