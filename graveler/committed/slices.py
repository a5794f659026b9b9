"""Applying sorted changes to a tree slice by slice, with several independent builders.

A slice is the interval between two *break keys*, after which a range always ends. So builders need
nothing of each other, and together give the ranges of `apply`. `Cut.of` selects the keys and
`stitch` checks them; see ``docs/design/0021-trees-in-slices.md``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat, zip_longest
from typing import NamedTuple

from graveler.committed import metarange
from graveler.committed.apply import (
    Applied,
    Cursor,
    StagedChange,
    Tally,
    joined,
    overwrite,
    rewrite,
)
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Cutter, Splitting
from graveler.committed.tree import Tree, tree_of
from graveler.errors import SourceChangedError
from graveler.model import RangeInfo


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut of a tree into slices to which changes are applied."""

    base: str
    splitting: Splitting
    first: bytes
    last: bytes
    breaks: tuple[bytes, ...] = ()

    @classmethod
    def of(
        cls,
        store: RangeStore,
        base: str,
        splitting: Splitting,
        span: tuple[bytes, bytes],
        candidates: Iterable[bytes],
        every: int = 1,
        weights: Iterable[int] | None = None,
    ) -> "Cut":
        """Return a cut at about one in `every` candidates.

        Args:
            candidates: Break keys that the new tree has, ascending: keys that are hard breaks
                by `Cutter.hard` without a next key.
            weights: The weight of each candidate in this number. None: each counts as one.
        """
        tree = metarange.read(store, base)
        first, last = span
        breaks: list[bytes] = []
        passed = 0
        for key, weight in zip(candidates, weights or repeat(1), strict=False):
            passed += weight
            if passed >= every and first <= key < last and _separates(store, tree, key):
                breaks.append(key)
                passed = 0
        return cls(base, splitting, first, last, tuple(breaks))

    @property
    def slices(self) -> int:
        """The number of slices."""
        return len(self.breaks) + 1

    def span(self, number: int) -> tuple[bytes, bytes | None]:
        """Return the key before a slice (b"" for none) and its last key (None for no limit)."""
        after = self.breaks[number - 1] if number else b""
        return after, self.breaks[number] if number < len(self.breaks) else None

    def touched(self, tree: Tree) -> tuple[int, int]:
        """Return start and stop of the ranges that builders may write."""
        start = tree.at_or_after(self.first)
        size = 0
        if start:
            start -= 1
            size = tree[start].size
        while start and size < self.splitting.max_bytes and not tree[start - 1].natural:
            start -= 1
            size += tree[start].size
        stop = tree.at_or_after(self.last)
        return start, stop + (stop < len(tree) and tree[stop].min_key <= self.last)


class Load:
    """The load that changes of a tree are for builders, and where it can be cut into slices.

    Candidates are keys of changes that are not deletions, and last keys of ranges that keep them.

    Attributes:
        size: Logical bytes of the changes, and of the ranges between whose ends a change falls.
    """

    def __init__(self, tree: Tree, splitting: Splitting) -> None:
        self._tree = tree
        self._cutter = Cutter(splitting)
        self._at = 0  # the first range at or after the last change
        self._touched = -1
        self._weighed = 0
        self._deleted = False
        self.first = self.last = b""
        self.size = 0
        self.candidates: list[bytes] = []
        self.weights: list[int] = []

    def add(self, change: StagedChange) -> None:
        """Add the next change, in key order."""
        key, _, value = change
        tree, at = self._tree, self._tree.at_or_after(key, self._at)
        for place in range(self._at, at):
            end = tree.last_key(place)
            if self._cutter.hard(end, None) and not (self._deleted and end == self.last):
                self._note(end)
                break
        if self._touched < at < len(tree) and tree[at].min_key <= key:
            self._touched = at
            self.size += tree[at].size
        self.size += len(key) + len(value or b"")
        self.first, self.last = self.first or key, key
        self._at, self._deleted = at, value is None
        if value is not None and self._cutter.hard(key, None):
            self._note(key)

    def _note(self, key: bytes) -> None:
        self.candidates.append(key)
        self.weights.append(self.size - self._weighed)
        self._weighed = self.size

    def cut(self, store: RangeStore, base: str, splitting: Splitting, share: int) -> Cut:
        """Return a cut of the tree with metarange id `base` into slices of about `share` bytes."""
        span = (self.first, self.last)
        return Cut.of(store, base, splitting, span, self.candidates, share, self.weights)


def _separates(store: RangeStore, tree: Tree, key: bytes) -> bool:
    """Return whether, in the tree with `key` added, a range ends after `key`."""
    info = tree.find(key)
    if info is None:
        return True  # between two ranges
    if key == info.max_key:
        return info.natural  # a fragment may continue
    return store.open_range(info).find(key) is None  # the range is written again


class Part(NamedTuple):
    """The result of building a slice."""

    infos: Sequence[RangeInfo]
    tally: Tally


def build(store: RangeStore, cut: Cut, number: int, changes: Iterable[StagedChange]) -> Part:
    """Write the ranges of a slice. On return all of them are in the store."""
    tree = metarange.read(store, cut.base)
    start, stop = cut.touched(tree)
    after, upto = cut.span(number)
    if number:
        start = tree.at_or_after(after + b"\0")
    if upto is not None:
        stop = tree.at_or_after(upto)
        stop += stop < len(tree) and tree[stop].min_key <= upto
    following = tree[stop].min_key if upto is None and stop < len(tree) else None
    with RangeWriter(store, cut.splitting) as writer:
        tally = _rewrite(store, writer, tree[start:stop], changes, after, upto, following or b"")
        infos = writer.finish(before=following)
    return Part(infos, tally)


def replacing(
    store: RangeStore, cut: Cut, number: int, prefix: bytes, changes: Iterable[StagedChange]
) -> Iterator[StagedChange]:
    """Yield the changes of a slice, and deletions of all other keys of the tree below `prefix`."""
    after, upto = cut.span(number)
    end = metarange.prefix_end(prefix)
    stops = [stop for stop in (end, None if upto is None else upto + b"\0") if stop is not None]
    start = max(prefix, after + b"\0") if after else prefix
    present = metarange.scan(store, cut.base, start, min(stops, default=None))
    key = next(present, (None,))[0]
    for change in changes:
        while key is not None and key < change[0]:
            yield key, None, None
            key = next(present, (None,))[0]
        if key == change[0]:
            key = next(present, (None,))[0]
        yield change
    while key is not None:
        yield key, None, None
        key = next(present, (None,))[0]


def _rewrite(
    store: RangeStore,
    writer: RangeWriter,
    base: Tree,
    changes: Iterable[StagedChange],
    after: bytes,
    upto: bytes | None,
    following: bytes,
) -> Tally:
    """Rewrite like `apply.rewrite`, but use only parts of ranges with a break key inside."""
    tally = Tally()
    cursor = Cursor(changes)

    def write(info: RangeInfo, limit: bytes | None) -> None:
        records = store.open_range(info, numbered=True).records()
        inside = [each for each in records if each[0] > after and (upto is None or each[0] <= upto)]
        writer.add_all(joined(inside, cursor.below(limit), overwrite, tally))

    if base and base[0].min_key <= after:
        info, base = base[0], base[1:]
        write(info, info.max_key + b"\0")
    ending = base[-1] if base and upto is not None and base[-1].max_key > upto else None
    limit = None if ending is None else ending.min_key
    inner, ahead = (base, following) if ending is None else (base[:-1], ending.min_key)
    rewrite(store, writer, inner, cursor.below(limit), overwrite, before=ahead, tally=tally)
    if ending is not None:
        write(ending, None)
    return tally


def stitch(store: RangeStore, cut: Cut, parts: Sequence[Part]) -> Applied:
    """Publish the tree of all slices. Return the result of `apply`."""
    tree = metarange.read(store, cut.base)
    start, stop = cut.touched(tree)
    for key, part in zip(cut.breaks, parts, strict=False):
        if not part.infos or part.infos[-1].max_key != key:
            raise SourceChangedError(
                f"{key.decode(errors='replace')!r} was in the source at the first look and not at "
                "the second one: import it again, from a source that does not change meanwhile"
            )
    tally = Tally()
    for part in parts:
        tally.add(part.tally)
    if not tally.total:
        return Applied(cut.base, tally, changed=False)
    runs = [tree[:start], *(tree_of(part.infos) for part in parts), tree[stop:]]
    runs = [run for run in runs if run]
    with RangeWriter(store, cut.splitting) as writer:
        for run, following in zip_longest(runs, runs[1:]):
            writer.add_ranges(run, before=following[0].min_key if following else b"")
        made, _ = writer.finish_tree()
    return Applied(made, tally, changed=True)
