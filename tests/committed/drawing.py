"""Random trees and policies, and how the ranges of a tree must end."""

from collections.abc import Iterable, Mapping
from itertools import pairwise, zip_longest

from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import DIRECTORY, HASH, Cutter, Splitting
from graveler.values import total
from tests.committed.trees import CRUMBS, Forest, between, contents, problems_of, record

POLICIES = [
    CRUMBS,
    Splitting(HASH, max_bytes=100, raggedness=2, hard=2),
    Splitting(HASH, max_bytes=10_000, raggedness=5),
    Splitting(HASH, min_bytes=100, max_bytes=600, raggedness=3, hard=4),
    Splitting(HASH, min_bytes=150, max_bytes=900, raggedness=2, hard=1),
    Splitting(DIRECTORY, max_bytes=600, raggedness=4, hard=5, hard_directories=7),
    Splitting(DIRECTORY, max_bytes=600, raggedness=2, hard=2, hard_directories=3),
    Splitting(DIRECTORY, max_bytes=200, raggedness=2, hard=4, hard_directories=3),
    Splitting(DIRECTORY, max_bytes=200, raggedness=1, hard=3, hard_directories=2),
]
SPLITTINGS = st.sampled_from(POLICIES)
KEYS = st.text("ab/", min_size=1, max_size=6)
STATES = st.dictionaries(KEYS, st.sampled_from("AB"), max_size=40)
ADDRESSED = st.dictionaries(KEYS, st.sampled_from(["A@1", "A@2", "B@1", "C@1"]), max_size=25)


def grown(store: RangeStore, states: Iterable[Mapping[str, str]], splitting: Splitting) -> str:
    """Return the tree after one commit for each state."""
    tree, before = EMPTY_METARANGE, dict[str, str]()
    for after in states:
        tree = apply(store, tree, between(before, after), splitting).metarange
        before = dict(after)
    return tree


NAMES = [f"k{number:04d}" for number in range(400)]


def wide(forest: Forest) -> str:
    """Return a tree of NAMES in ranges of two or three records."""
    return apply(forest.fresh(), EMPTY_METARANGE, map(record, NAMES), CRUMBS).metarange


def edited(forest: Forest, tree: str, **texts: str) -> str:
    """Return a tree with other contents at some of NAMES."""
    changes = [record(name, text) for name, text in sorted(texts.items())]
    return apply(forest.fresh(), tree, changes, CRUMBS).metarange


def assert_sound(
    store: RangeStore, tree: str, state: Mapping[str, str], splitting: Splitting
) -> None:
    """Check a tree: its records, what fsck finds, and that its ranges say how they end."""
    assert contents(store, tree) == state
    assert list(problems_of(store, tree)) == []
    cutter, infos = Cutter(splitting), metarange.read(store, tree)
    for info, following in zip_longest(infos, infos[1:]):
        next_key = None if following is None else following.min_key
        assert info.natural == cutter.cut(info.max_key, next_key, info.size)
        size, records = 0, store.open(info.id).records()
        for (key, _, value), (after_it, _, _) in pairwise(records):
            size += len(key) + len(value)
            assert not cutter.cut(key, after_it, size)
        assert info.total == total(b"".join(identifier for _, identifier, _ in records))
