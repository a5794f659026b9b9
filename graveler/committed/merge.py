"""Three trees in, one out: what the source changed since the base, laid over the destination.

Only ranges that both sides changed are opened. There each key that the source changed
is decided on the identities of base, source and destination:

==========================================  ===================
source = destination                        either
base = destination                          the source's
else                                        conflict
==========================================  ===================

A missing key counts as an identity of its own, so the three rows cover a file that both
sides added, and a deletion against a change.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Final, Literal

from graveler.committed import metarange
from graveler.committed.diff import RawChange, diff_ranges, same_content
from graveler.committed.range_store import RangeStore
from graveler.committed.range_writer import RangeWriter
from graveler.committed.rewrite import rewrite
from graveler.committed.splitting import Splitting
from graveler.committed.sweep import Segment, Side, segments, split_common
from graveler.committed.table import Record
from graveler.errors import InvalidInputError
from graveler.identity import record_id
from graveler.model import Conflict, RangeInfo
from graveler.records import value_identity

__all__ = ["CONFLICT", "Merged", "Resolve", "Unresolved", "merge"]


class Unresolved(Enum):
    """What a `Resolve` answers where it has no answer."""

    CONFLICT = "conflict"


CONFLICT: Final = Unresolved.CONFLICT
_min_key = attrgetter("min_key")

Resolve = Callable[
    [bytes, bytes | None, bytes | None, bytes | None], "bytes | Literal[Unresolved.CONFLICT] | None"
]
"""(key, base, source, dest value records) -> the value to have, None for no such key, or
`CONFLICT` to leave it to the strategy."""


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

    Raises:
        InvalidInputError: No such strategy.
    """
    if strategy not in {None, "source-wins", "dest-wins"}:
        raise InvalidInputError(f"merge strategy {strategy!r}: use source-wins, dest-wins or None")
    if dest in {base, source}:
        return Merged(source)
    if source == base:
        return Merged(dest)
    sides = [metarange.read(store, tree) for tree in (base, source, dest)]
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
    common, rest = split_common(*sides)
    at = 0
    for segment in segments(*rest):
        start = min(side[0].min_key for side in segment if side)
        following = bisect_left(common, start, at, key=_min_key)
        writer.add_ranges(common[at:following])
        at = following
        _merge_segment(store, writer, segment, judge)
    writer.add_ranges(common[at:])


def _merge_segment(
    store: RangeStore, writer: RangeWriter, segment: Segment, judge: "_Judge"
) -> None:
    base, source, dest = segment
    if _same_ranges(source, base) or _same_ranges(source, dest):
        writer.add_ranges(dest)
    elif _same_ranges(dest, base):
        writer.add_ranges(source)
    else:
        rewrite(store, writer, dest, diff_ranges(store, base, source), judge.settle)


def _same_ranges(one: Side, other: Side) -> bool:
    return [info.id for info in one] == [info.id for info in other]


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
        if same_content(source, dest):
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
        return key, record_id(key, value_identity(chosen)), chosen

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
