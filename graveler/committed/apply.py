"""Applying sorted changes to a tree: the core of a commit.

The walk goes from change to change, not from range to range. All ranges between two changes
together cost one slice of the tree.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

from graveler.committed import metarange
from graveler.committed.cache.flat import Record
from graveler.committed.diff import pieces, same_content, same_ranges, span_of
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.committed.tree import Tree, tree_of
from graveler.errors import UnsortedKeysError
from graveler.model import RangeInfo
from graveler.values import Replacement, record_id

C = TypeVar("C", bound=tuple[Any, ...])
Settle = Callable[[C, Record | None], Record | None]
"""(change, record found at its key) -> the record of the new tree, or None for no record. A
function that returns the found record itself leaves the key unchanged."""


@dataclass(slots=True)
class Tally:
    """The numbers of changed keys."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        """The number of all changed keys."""
        return self.added + self.changed + self.removed

    def add(self, other: "Tally") -> None:
        """Add other numbers."""
        self.added += other.added
        self.changed += other.changed
        self.removed += other.removed


def rewrite(
    store: RangeStore,
    writer: RangeWriter,
    base: Tree,
    changes: Iterable[C],
    settle: Settle[C],
    *,
    before: bytes = b"",
    tally: Tally | None = None,
) -> Tally:
    """Write `base` with `changes` to `writer`.

    A range is opened if a change falls between its first and last key. It is written again if a
    change has an effect. A key between two ranges never affects the range after it. It continues
    the writer's current range if there is one, else a fragment before it, else it starts a range.

    Args:
        before: The first key of the range after `base` if `base` is a part of a tree, else b"".
    """
    tally = Tally() if tally is None else tally
    cursor = Cursor(changes)
    at = 0
    while cursor.head is not None:
        key = cursor.head[0]
        following = base.at_or_after(key, at)
        ahead = base[following].min_key if following < len(base) else before
        writer.add_ranges(base[at:following], before=ahead)
        at = following
        if at == len(base):
            writer.add_all(_gap(cursor.below(None), settle, tally))
        elif key < base[at].min_key:
            writer.add_all(_gap(cursor.below(base[at].min_key), settle, tally))
        else:
            ahead = base[at + 1].min_key if at + 1 < len(base) else before
            _touch(store, writer, base[at : at + 1], ahead, cursor, settle, tally)
            at += 1
    writer.add_ranges(base[at:], before=before)
    return tally


def _touch(
    store: RangeStore,
    writer: RangeWriter,
    infos: Sequence[RangeInfo],
    ahead: bytes,
    cursor: "Cursor[C]",
    settle: Settle[C],
    tally: Tally,
) -> None:
    info = infos[0]
    before = tally.total
    result = joined(
        store.open_range(info, numbered=True).records(),
        cursor.below(info.max_key + b"\0"),
        settle,
        tally,
    )
    kept: list[Record] = []
    for record in result:
        kept.append(record)
        if tally.total != before:
            break
    if tally.total == before:
        writer.add_ranges(infos, before=ahead)
    else:
        writer.add_all(chain(kept, result))


def joined(
    records: list[Record], changes: Iterator[C], settle: Settle[C], tally: Tally
) -> Iterator[Record]:
    """Yield the records with the changes applied, and count the changes."""
    keys = [record[0] for record in records]
    count = len(keys)
    at = 0
    for change in changes:
        place = bisect_left(keys, change[0], at)
        yield from records[at:place]
        existing = records[place] if place < count and keys[place] == change[0] else None
        at = place if existing is None else place + 1
        settled = settle(change, existing)
        if settled is existing:
            if existing is not None:
                yield existing
        elif settled is None:
            tally.removed += 1
        else:
            if existing is None:
                tally.added += 1
            else:
                tally.changed += 1
            yield settled
    yield from records[at:]


def _gap(changes: Iterator[C], settle: Settle[C], tally: Tally) -> Iterator[Record]:
    for change in changes:
        record = settle(change, None)
        if record is not None:
            tally.added += 1
            yield record


class Cursor(Generic[C]):
    """An iterator of changes whose next item is visible in advance."""

    def __init__(self, changes: Iterable[C]) -> None:
        self._rest = iter(changes)
        self.head: C | None = next(self._rest, None)

    def below(self, limit: bytes | None) -> Iterator[C]:
        """Yield the changes before key `limit`, or all for None. The caller exhausts it."""
        head, rest = self.head, self._rest
        while head is not None and (limit is None or head[0] < limit):
            yield head
            following = next(rest, None)
            if following is not None and following[0] <= head[0]:
                raise UnsortedKeysError(
                    f"change of {following[0]!r} after {head[0]!r}: changes must come in "
                    "ascending key order, each key once"
                )
            self.head = head = following


StagedChange = tuple[bytes, bytes | None, bytes | None]
"""Key, record id, value record. The last two are None for a tombstone. May be a `Replacement`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of applying changes.

    Attributes:
        tally: The numbers of changed paths. `reapply` counts only the changes that it applies again.
        changed: Whether a path differs from the base. The ids do not tell: trees with the same
            records can have different ranges.
    """

    metarange: str
    tally: Tally
    changed: bool


def apply(
    store: RangeStore, base: str, changes: Iterable[StagedChange], splitting: Splitting
) -> Applied:
    """Return the tree that results from applying `changes` to `base`.

    Ranges without a changed key are reused by id and not opened. If a change has the content
    identity of the base's record, that record stays, including its address, unless the change is
    a `Replacement`.

    Args:
        changes: The changes in key order, each key once.
    """
    infos = metarange.read(store, base)
    with RangeWriter(store, splitting) as writer:
        if infos:
            tally = rewrite(store, writer, infos, changes, overwrite)
            if not tally.total:
                return Applied(base, tally, changed=False)
            made, _ = writer.finish_tree()
        else:
            # up to millions of entries: `filter` drops deletions without a Python frame for each
            writer.add_all(cast("Iterable[Record]", filter(itemgetter(2), changes)))
            made, tree = writer.finish_tree()
            tally = Tally(added=sum(info.count for info in tree))
    return Applied(made, tally, changed=tally.total > 0)


def keeping(
    store: RangeStore, tree: str, changes: Iterable[StagedChange]
) -> Iterator[StagedChange]:
    """Yield the changes. If `tree` has equal content at a key, its record replaces the change's.

    For a path that was deleted and is written again. A `Replacement` stays as it is.
    """
    for change in changes:
        key, _, value = change
        present = None if isinstance(change, Replacement) else metarange.get(store, tree, key)
        if present is not None and value is not None and same_content(present, value):
            yield key, record_id(key, present), present
        else:
            yield change


def reapply(
    store: RangeStore,
    base: str,
    earlier: str,
    moved: str,
    changes: Callable[[bytes, bytes], Iterable[StagedChange]],
    splitting: Splitting,
) -> Applied:
    """Apply to `moved` the changes that turned `base` into `earlier`, and return the new tree.

    Args:
        changes: A function of a first and a last key. It yields the changes from the one to the
            other, both included, in key order.
    """
    sides = [metarange.read(store, tree) for tree in (base, earlier, moved)]
    tally = Tally()
    changed = False
    with RangeWriter(store, splitting) as writer:
        for shared, segment in pieces(*sides):
            writer.add_ranges(shared)
            if segment is None:
                break
            before, done, now = segment
            if same_ranges(before, now):
                # a range is rewritten only if a change has an effect
                changed = changed or not same_ranges(before, done)
                writer.add_ranges(done)
            else:
                again = changes(*span_of(segment))
                rewrite(store, writer, tree_of(now), again, overwrite, tally=tally)
        made, _ = writer.finish_tree()
    return Applied(made, tally, changed=changed or tally.total > 0)


def overwrite(change: StagedChange, record: Record | None) -> Record | None:
    """Settle a change as a commit does: the record of the base stays if the content is equal."""
    key, identifier, value = change
    if identifier is None or value is None:
        return None
    if record is not None and (
        record[1] == identifier
        or (not isinstance(change, Replacement) and same_content(record[2], value))
    ):
        return record
    return key, identifier, value
