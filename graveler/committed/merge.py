"""Three trees in, one out: what the source changed since the base, laid over the destination.

Only ranges that both sides changed are opened. There each key whose record the source
changed is decided, by the first row that holds:

==================================================  ===================
the destination's record is the base's              the source's
source and destination have equal content           the destination's
source and base have equal content                  the destination's
base and destination have equal content             the source's
else                                                conflict
==================================================  ===================

A missing key counts as a content of its own, so the rows cover a file that both sides
added, and a deletion against a change. The first row is what taking over a whole range
that the destination has not changed does, too; so the result does not depend on where
ranges end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from operator import eq
from typing import Final, Literal, NamedTuple

from graveler.committed import metarange
from graveler.committed.diff import RawChange, diff_ranges, same_content
from graveler.committed.range_store import RangeStore
from graveler.committed.range_writer import RangeWriter
from graveler.committed.rewrite import rewrite
from graveler.committed.splitting import Splitting
from graveler.committed.sweep import Segment, pieces, same_ranges
from graveler.committed.table import Record
from graveler.errors import InvalidInputError
from graveler.identity import record_id
from graveler.model import Conflict, RangeInfo
from graveler.records import value_identity

__all__ = ["CONFLICT", "Earlier", "Merged", "Resolve", "Unresolved", "merge"]


class Unresolved(Enum):
    """What a `Resolve` answers where it has no answer."""

    CONFLICT = "conflict"


CONFLICT: Final = Unresolved.CONFLICT

Resolve = Callable[
    [bytes, bytes | None, bytes | None, bytes | None], "bytes | Literal[Unresolved.CONFLICT] | None"
]
"""(key, base, source, dest value records) -> the value to have, None for no such key, or
`CONFLICT` to leave it to the strategy."""


class Earlier(NamedTuple):
    """What a merge gave before its destination moved on.

    Attributes:
        dest: Metarange id of the destination then.
        merged: Metarange id of the result.
    """

    dest: str
    merged: str


@dataclass(frozen=True, slots=True)
class Merged:
    """What merging gave.

    Attributes:
        metarange: Id of the merged tree, "" where there are conflicts.
        conflicts: In key order.
    """

    metarange: str
    conflicts: tuple[Conflict, ...] = ()


def merge(  # noqa: PLR0913 - three trees and how to join them
    store: RangeStore,
    base: str,
    source: str,
    dest: str,
    *,
    splitting: Splitting,
    strategy: str | None = None,
    resolve: Resolve | None = None,
    earlier: Earlier | None = None,
) -> Merged:
    """Merge tree `source` into tree `dest`; nothing is written where a conflict is left.

    Args:
        store: Where the trees are.
        base: Metarange id of what both sides started from.
        source: Metarange id.
        dest: Metarange id.
        splitting: Where new ranges end.
        strategy: ``source-wins`` or ``dest-wins``: the side that has its way in a conflict,
            its deletions included. None: neither.
        resolve: Asked first about each conflict.
        earlier: An earlier result for the same base and source, settled in the same way: where
            the destination has not changed since, it is taken over range by range, unopened.

    Raises:
        InvalidInputError: No such strategy.
    """
    if strategy not in {None, "source-wins", "dest-wins"}:
        raise InvalidInputError(f"merge strategy {strategy!r}: use source-wins, dest-wins or None")
    if dest in {base, source}:
        return Merged(source)
    if source == base:
        return Merged(dest)
    trees = (base, source, dest) if earlier is None else (base, source, dest, *earlier)
    sides = [metarange.read(store, tree) for tree in trees]
    judge = _Judge(strategy, resolve)
    with RangeWriter(store, splitting, hold=True) as writer:
        _merge_ranges(store, writer, sides, judge)
        if judge.conflicts:
            return Merged("", tuple(judge.conflicts))
        infos = writer.finish()
    return Merged(metarange.write(store, infos))


def _merge_ranges(
    store: RangeStore, writer: RangeWriter, sides: list[tuple[RangeInfo, ...]], judge: "_Judge"
) -> None:
    for shared, segment in pieces(*sides):
        writer.add_ranges(shared)
        if segment is None:
            return
        _, _, dest, *earlier = segment
        if earlier and same_ranges(earlier[0], dest):
            writer.add_ranges(earlier[1])
        else:
            _merge_segment(store, writer, segment, judge)


def _merge_segment(
    store: RangeStore, writer: RangeWriter, segment: Segment, judge: "_Judge"
) -> None:
    base, source, dest = segment[:3]
    if same_ranges(source, base) or same_ranges(source, dest):
        writer.add_ranges(dest)
    elif same_ranges(dest, base):
        writer.add_ranges(source)
    else:
        rewrite(store, writer, dest, diff_ranges(store, base, source, same=eq), judge.settle)


class _Judge:
    """Decides key by key, and keeps the conflicts it could not decide."""

    def __init__(self, strategy: str | None, resolve: Resolve | None) -> None:
        self._strategy = strategy
        self._resolve = resolve
        self.conflicts: list[Conflict] = []

    def settle(self, change: RawChange, found: Record | None) -> Record | None:
        """Return the record to have at a key that the source changed; `found` is dest's."""
        key, base, source = change
        dest = None if found is None else found[2]
        if dest == base:
            return None if source is None else (key, record_id(key, source), source)
        if same_content(source, dest) or same_content(source, base):
            return found
        chosen: bytes | Literal[Unresolved.CONFLICT] | None = source
        if not same_content(base, dest):
            chosen = self._choose(key, base, source, dest)
            if chosen is CONFLICT:
                self.conflicts.append(_conflict(key, base, source, dest))
        if chosen is CONFLICT or same_content(chosen, dest):
            return found
        if chosen is None:
            return None
        return key, record_id(key, chosen), chosen

    def _choose(
        self, key: bytes, base: bytes | None, source: bytes | None, dest: bytes | None
    ) -> bytes | Literal[Unresolved.CONFLICT] | None:
        if self._resolve is not None:
            chosen = self._resolve(key, base, source, dest)
            if chosen is not CONFLICT:
                return chosen
        if self._strategy is None:
            return CONFLICT
        return source if self._strategy == "source-wins" else dest


def _conflict(key: bytes, base: bytes | None, source: bytes | None, dest: bytes | None) -> Conflict:
    identities = [None if v is None else value_identity(v).hex() for v in (base, source, dest)]
    return Conflict(key.decode("utf-8", "backslashreplace"), *identities)
