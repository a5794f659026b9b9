"""Merging trees: the changes of the source since the bases are applied to the destination.

Only ranges that both sides changed are opened. There, each key at which the source's record differs
from a base is decided by the first row that holds; a missing key is a content of its own:

==================================================  ===================
the destination's record is that of every base      the source's
source and destination have equal content           the destination's
source and base have equal content                  the destination's
base and destination have equal content             the source's
else                                                conflict
==================================================  ===================

Several bases are merged first (`bases`), and a table whose log both sides changed is one unit
(`units`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge as merge_sorted
from itertools import groupby
from operator import eq, itemgetter
from typing import Literal, NamedTuple

from graveler.committed import metarange
from graveler.committed.apply import StagedChange, apply, rewrite
from graveler.committed.bases import CONFLICT, Bases, BaseValues, Unresolved
from graveler.committed.cache.flat import Record
from graveler.committed.diff import (
    RawChange,
    Segment,
    Side,
    diff,
    diff_ranges,
    pieces,
    same_content,
    same_ranges,
    span_of,
)
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.committed.tree import Tree, tree_of
from graveler.committed.units import is_torn, log_of, name_of, units_of
from graveler.errors import InvalidInputError
from graveler.values import record_id

SHOWN = 1_000
"""The maximum number of conflicts that are kept. Further conflicts are only counted."""

_Value = bytes | Literal[Unresolved.CONFLICT] | None

Resolve = Callable[[bytes, _Value, bytes | None, bytes | None], _Value]
"""(key, base, source, dest value records) -> the merged value, None for no such key, or
`CONFLICT` to leave it to the strategy. The base is `CONFLICT` if the bases do not agree."""

Whole = Callable[[bytes], str | None]
"""(name of a unit, as in ``tables/a/_delta_log``) -> ``source-wins`` or ``dest-wins``, or None to
leave it to the strategy."""


class Earlier(NamedTuple):
    """The result of a merge before its destination moved. It decided no unit as a whole."""

    dest: str
    merged: str


class RawConflict(NamedTuple):
    """A key that both sides changed in different ways.

    For a unit, the key is its name, and there are no value records.

    Attributes:
        base: Its value record in the base, None if it is missing, or `CONFLICT` if several bases
            do not agree on it.
    """

    key: bytes
    base: _Value
    source: bytes | None
    dest: bytes | None


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge.

    Attributes:
        whole: Names of the units that a strategy settled by taking one side.
        tables: Folders of tables that both sides changed, and that were merged as a whole.
    """

    metarange: str
    conflicts: tuple[RawConflict, ...] = ()
    conflict_count: int = 0
    whole: tuple[bytes, ...] = ()
    tables: tuple[bytes, ...] = ()


def merge(
    store: RangeStore,
    base: str | Bases,
    source: str,
    dest: str,
    *,
    splitting: Splitting,
    strategy: str | None = None,
    resolve: Resolve | None = None,
    whole: Whole | None = None,
    earlier: Earlier | None = None,
    units: bool = True,
) -> Merged:
    """Merge tree `source` into `dest`. Nothing is written if there is a conflict.

    Args:
        strategy: ``source-wins`` or ``dest-wins``: the side that wins a conflict, including its
            deletions. None leaves conflicts.
        resolve: Called first for each conflict. It must return the same result for the same
            conflict.
        earlier: An earlier result for the same bases and source, settled in the same way. Where
            the destination has not changed since, its ranges are reused and not opened.
    """
    sides = _Sides(store, base, source, dest, earlier)
    judge = _Judge(strategy, resolve, whole, units=units)
    if sides.result is not None:
        return Merged(sides.result)
    with RangeWriter(store, splitting, hold=True) as writer:
        sides.write(writer, judge)
        if not (units and sides.find_torn()):
            return judge.merged(writer)
    # decisions by path do not count within units: they are discarded
    judge = _Judge(strategy, resolve, whole)
    with RangeWriter(store, splitting, hold=True) as writer:
        sides.write(writer, judge)
        winners = judge.winners(sides.torn)
        merged = judge.merged(writer)
    if merged.conflict_count:
        return merged
    tree = merged.metarange
    for unit, winner in winners.items():
        side = source if winner == "source-wins" else dest
        changes = map(staged, diff(store, tree, side, prefix=unit))
        tree = apply(store, tree, changes, splitting).metarange
    return Merged(tree, whole=tuple(map(name_of, winners)))


def staged(change: RawChange) -> StagedChange:
    """Return the change that brings the right value."""
    key, _, value = change
    return key, None if value is None else record_id(key, value), value


def merge_changes(
    store: RangeStore,
    base: str | Bases,
    source: str,
    dest: str,
    *,
    strategy: str | None = None,
    resolve: Resolve | None = None,
    whole: Whole | None = None,
) -> Iterator[RawChange | RawConflict]:
    """Yield the changes that `merge` would make to `dest`, and its conflicts, in key order."""
    judge = _Judge(strategy, resolve, whole)
    sides = _Sides(store, base, source, dest, None)
    return sides.changes(judge)


class _Sides:
    """The trees of one merge, side by side."""

    def __init__(
        self,
        store: RangeStore,
        base: str | Bases,
        source: str,
        dest: str,
        earlier: Earlier | None,
    ) -> None:
        self._store = store
        self.torn: tuple[bytes, ...] = ()
        self.logs: set[bytes] = set()
        bases = Bases.one(base) if isinstance(base, str) else base
        trees = bases.trees
        self._trees = [*trees, source, dest, *(earlier or ())]
        self._count = len(trees)
        self._places = [trees.index(each.tree) for each in bases.best]
        self._values = BaseValues(store, bases)
        self.result: str | None = None
        if source == dest or trees == (source,):
            self.result = dest
        elif trees == (dest,):
            self.result = source

    def write(self, writer: RangeWriter, judge: "_Judge") -> None:
        """Write the merged tree. Torn units are not merged yet."""
        for shared, segment in self._pieces():
            writer.add_ranges(shared)
            if segment is None:
                return
            taken = self._taken(segment)
            if taken is not None:
                writer.add_ranges(taken)
            else:
                dest = tree_of(segment[self._count + 1])
                rewrite(self._store, writer, dest, self._candidates(segment), judge.settle)

    def find_torn(self) -> bool:
        """Find the torn units among those that the walk has met. Return whether there are any."""
        source, dest = self._trees[self._count : self._count + 2]
        self.torn = units_of(
            log for log in self.logs if is_torn(self._store, self._values, source, dest, log)
        )
        if self.torn:
            del self._trees[self._count + 2 :]
        return bool(self.torn)

    def changes(self, judge: "_Judge") -> Iterator[RawChange | RawConflict]:
        """Yield the differences from the destination to the merged tree, and the conflicts."""
        if self._trees[-1] == self.result:
            return
        for _, segment in self._pieces():
            if segment is not None and self._taken(segment) is None:
                for _ in self._candidates(segment):
                    pass
        units: Iterator[RawChange | RawConflict] = iter(())
        if self.find_torn():
            units = self._units(judge)
        yield from merge_sorted(units, self._changes(judge), key=itemgetter(0))

    def _units(self, judge: "_Judge") -> Iterator[RawChange | RawConflict]:
        source, dest = self._trees[self._count :]
        winners = judge.winners(self.torn)
        for unit in self.torn:
            winner = winners.get(unit)
            if winner is None:
                yield _conflict(unit)
            elif winner == "source-wins":
                yield from diff(self._store, dest, source, prefix=unit)

    def _changes(self, judge: "_Judge") -> Iterator[RawChange | RawConflict]:
        for _, segment in self._pieces():
            if segment is None:
                return
            dest = segment[self._count + 1]
            taken = self._taken(segment)
            if taken is not None:
                for change in diff_ranges(self._store, dest, taken):
                    if not change.key.startswith(self.torn):
                        yield change
                continue
            for candidate in self._candidates(segment):
                info = tree_of(dest).find(candidate.key)
                stored = None if info is None else self._store.open_range(info).get(candidate.key)
                chosen = judge.choose(candidate, stored)
                if chosen is CONFLICT:
                    yield RawConflict(*candidate[:3], stored)
                elif not same_content(chosen, stored):
                    yield RawChange(candidate.key, stored, chosen)

    def _pieces(self) -> Iterator[tuple[Tree, Segment | None]]:
        return pieces(*(metarange.read(self._store, tree) for tree in self._trees))

    def _taken(self, segment: Segment) -> Side | None:
        """Return the side whose ranges are the result, or None if there is no such side."""
        bases, (source, dest, *earlier) = segment[: self._count], segment[self._count :]
        if earlier and same_ranges(earlier[0], dest):
            self._note_ends(segment)
            return earlier[1]
        if same_ranges(source, dest) or all(same_ranges(source, base) for base in bases):
            return dest
        if all(same_ranges(dest, base) for base in bases):
            self._note_ends(segment)
            return source
        return None

    def _note_ends(self, segment: Segment) -> None:
        """Note the logs that continue beyond a segment that is not opened.

        If the source changed a log in one segment and the destination changed it in another, the
        first or the last key of each segment is in the log.
        """
        for key in span_of(segment):
            self._note(key)

    def _note(self, key: bytes) -> None:
        log = log_of(key)
        if log is not None:
            self.logs.add(log)

    def _candidates(self, segment: Segment) -> Iterator["_Candidate"]:
        """Yield the keys at which the source's record differs from that of a base."""
        for candidate in self._changed(segment):
            self._note(candidate.key)
            if not candidate.key.startswith(self.torn):
                yield candidate

    def _changed(self, segment: Segment) -> Iterator["_Candidate"]:
        bases, source = segment[: self._count], segment[self._count]
        if len(bases) == 1:
            for key, record, value in diff_ranges(self._store, bases[0], source, same=eq):
                yield _Candidate(key, record, value, (record,))
            return
        diffs = (self._diff(place, base, source) for place, base in enumerate(bases))
        for key, changes in groupby(merge_sorted(*diffs), key=itemgetter(0)):
            by_place = {place: change for _, place, change in changes}
            value = next(iter(by_place.values())).right_value
            records = tuple(
                by_place[place].left_value if place in by_place else value
                for place in range(len(bases))
            )
            base = self._values.merged(key, [records[place] for place in self._places])
            yield _Candidate(key, base, value, records)

    def _diff(self, place: int, base: Side, source: Side) -> Iterator[tuple[bytes, int, RawChange]]:
        changes = diff_ranges(self._store, base, source, same=eq)
        return ((change.key, place, change) for change in changes)


class _Candidate(NamedTuple):
    """A key that the source changed."""

    key: bytes
    base: _Value
    source: bytes | None
    records: tuple[bytes | None, ...]


class _Judge:
    """Decides key by key, and keeps the conflicts that it cannot decide."""

    def __init__(
        self,
        strategy: str | None,
        resolve: Resolve | None,
        whole: Whole | None,
        *,
        units: bool = True,
    ) -> None:
        if strategy not in {None, "source-wins", "dest-wins"}:
            raise InvalidInputError(
                f"merge strategy {strategy!r}: use source-wins, dest-wins or None"
            )
        self._strategy = strategy
        self._resolve = resolve
        self._whole = whole
        self._units = units
        self.conflicts: list[RawConflict] = []
        self.conflict_count = 0

    def merged(self, writer: RangeWriter) -> Merged:
        """Return the tree that was written, or the conflicts."""
        if self.conflict_count:
            conflicts = sorted(self.conflicts, key=itemgetter(0))
            return Merged("", tuple(conflicts[:SHOWN]), self.conflict_count)
        return Merged(writer.finish_tree()[0])

    def winners(self, units: tuple[bytes, ...]) -> dict[bytes, str]:
        """Return unit to the strategy that settles it. A unit that none settles is a conflict."""
        winners: dict[bytes, str] = {}
        for unit in units:
            asked = None if self._whole is None else self._whole(name_of(unit))
            winner = asked or self._strategy
            if winner is None:
                self._leave(_conflict(unit))
            else:
                winners[unit] = winner
        return winners

    def _leave(self, conflict: RawConflict) -> None:
        self.conflict_count += 1
        if self.conflict_count <= SHOWN:
            self.conflicts.append(conflict)

    def settle(self, change: _Candidate, record: Record | None) -> Record | None:
        """Return the merged record of a key that the source changed. `record` is dest's."""
        dest = None if record is None else record[2]
        chosen = self.choose(change, dest)
        if chosen is CONFLICT:
            self._leave(RawConflict(*change[:3], dest))
            return record
        if chosen == dest:
            return record
        if chosen is None:
            return None
        return change.key, record_id(change.key, chosen), chosen

    def choose(self, change: _Candidate, dest: bytes | None) -> _Value:
        """Return the merged value of a key that the source changed, or `CONFLICT`."""
        source, base = change.source, change.base
        if all(dest == record for record in change.records):
            return source
        if same_content(source, dest):
            return dest
        if base is not CONFLICT:
            if same_content(source, base):
                return dest
            if same_content(base, dest):
                return source
        return self._settled(change, dest)

    def _settled(self, change: _Candidate, dest: bytes | None) -> _Value:
        key, base, source, _ = change
        if self._units and log_of(key) is not None:
            return CONFLICT  # its unit is torn
        if self._resolve is not None:
            chosen = self._resolve(key, base, source, dest)
            if chosen is not CONFLICT:
                return dest if same_content(chosen, dest) else chosen
        if self._strategy is None:
            return CONFLICT
        return source if self._strategy == "source-wins" else dest


def _conflict(unit: bytes) -> RawConflict:
    return RawConflict(name_of(unit), None, None, None)
