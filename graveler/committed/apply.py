"""A tree and sorted changes give a new tree: the heart of a commit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

from graveler.committed import metarange
from graveler.committed.diff import same_content
from graveler.committed.range_store import RangeStore
from graveler.committed.range_writer import RangeWriter
from graveler.committed.rewrite import Tally, rewrite
from graveler.committed.segments import pieces, same_ranges
from graveler.committed.splitting import Splitting
from graveler.committed.table import Record
from graveler.identity import record_id
from graveler.model import RangeInfo, Summary
from graveler.records import Replacement

StagedChange = tuple[bytes, bytes | None, bytes | None]
"""Key, record id, value record; both None for a tombstone. May be a `Replacement`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying changes gave.

    Attributes:
        metarange: Id of the new tree; the base's own where nothing changed.
        summary: Paths that differ, and range files; of `reapply` only those that it applied again.
        changed: Whether a path differs from the base. The id does not show it: the same records may be
            cut into other ranges.
    """

    metarange: str
    summary: Summary
    changed: bool


def apply(
    store: RangeStore, base: str, changes: Iterable[StagedChange], splitting: Splitting
) -> Applied:
    """Return the tree that `base` becomes by `changes`.

    Ranges that no key touches are reused by id, unopened. Where a change has the
    content identity that is there already, the base's record stays (its address too), unless
    the change is a `Replacement`.

    Args:
        store: Where trees are.
        base: Metarange id.
        changes: In key order, each key once.
        splitting: Where new ranges end.

    Raises:
        UnsortedKeysError: Changes are not in key order.
        CorruptionError: A range of the base cannot be read.
    """
    infos = metarange.read(store, base)
    with RangeWriter(store, splitting) as writer:
        if infos:
            tally = rewrite(store, writer, infos, changes, _overwrite)
            if not tally.total:
                return Applied(base, Summary(ranges_reused=len(infos)), changed=False)
            result = writer.finish()
        else:
            # a million entries may pass here: the deletions are left out without a Python frame
            writer.add_all(cast("Iterable[Record]", filter(itemgetter(2), changes)))
            result = writer.finish()
            tally = Tally(added=sum(info.count for info in result))
    return _applied(store, writer, result, [tally], changed=tally.total > 0)


def _applied(
    store: RangeStore,
    writer: RangeWriter,
    infos: Sequence[RangeInfo],
    tallies: Sequence[Tally],
    *,
    changed: bool,
) -> Applied:
    summary = Summary(
        added=sum(tally.added for tally in tallies),
        changed=sum(tally.changed for tally in tallies),
        removed=sum(tally.removed for tally in tallies),
        ranges_reused=writer.reused,
        ranges_written=writer.written,
    )
    return Applied(metarange.write(store, infos), summary, changed=changed)


def keeping(
    store: RangeStore, tree: str, changes: Iterable[StagedChange]
) -> Iterator[StagedChange]:
    """Yield changes, each with the record of `tree` at its key where that has equal content.

    For a path that was deleted and is written again. A `Replacement` stays as it is.
    """
    for change in changes:
        key, _, value = change
        there = None if isinstance(change, Replacement) else metarange.get(store, tree, key)
        if there is not None and value is not None and same_content(there, value):
            yield key, record_id(key, there), there
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
    """Return the tree that `moved` becomes by the changes that made `earlier` of `base`.

    Where both have the same ranges the earlier result is reused, unopened; the changes
    are applied again only where `moved` differs.

    Args:
        store: Where trees are.
        base: Metarange id of the tree that `earlier` was made of.
        earlier: Metarange id of what applying all the changes to it gave.
        moved: Metarange id of the tree to apply them to.
        changes: Called with a first and a last key: yields the changes from the one to the
            other, both included, in key order.
        splitting: Where new ranges end.
    """
    sides = [metarange.read(store, tree) for tree in (base, earlier, moved)]
    tallies: list[Tally] = []
    changed = False
    with RangeWriter(store, splitting) as writer:
        for shared, segment in pieces(*sides):
            writer.add_ranges(shared)
            if segment is None:
                break
            before, done, now = segment
            if same_ranges(before, now):
                # a range is rewritten only where a change has an effect
                changed = changed or not same_ranges(before, done)
                writer.add_ranges(done)
            else:
                first = min(side[0].min_key for side in segment if side)
                last = max(side[-1].max_key for side in segment if side)
                tallies.append(rewrite(store, writer, now, changes(first, last), _overwrite))
        result = writer.finish()
    changed = changed or any(tally.total for tally in tallies)
    return _applied(store, writer, result, tallies, changed=changed)


def _overwrite(change: StagedChange, found: Record | None) -> Record | None:
    key, identifier, value = change
    if identifier is None or value is None:
        return None
    if found is not None and (
        found[1] == identifier
        or (not isinstance(change, Replacement) and same_content(found[2], value))
    ):
        return found
    return key, identifier, value
