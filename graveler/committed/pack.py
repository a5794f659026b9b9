"""Packing a tree: badly cut ranges are replaced by good ranges with the same records.

A range is badly cut if it is a fragment, or larger than the policy allows. From each such range on,
records are cut again, until the policy ends a range where a good range starts. This happens at the
next hard break at the latest, because all builders end a range there. The last range of a tree may
be a fragment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from graveler.committed import metarange
from graveler.committed.range_store import RangeStore
from graveler.committed.range_writer import RangeWriter
from graveler.committed.splitting import Cutter, Splitting
from graveler.errors import InternalError
from graveler.model import ENTRY_BYTES, RANGE_KEY_BYTES, RangeInfo
from graveler.values import add_totals

_Part = tuple[tuple[bytes, ...], bytes, tuple[RangeInfo, ...]]


class Stretch(NamedTuple):
    """A part of a tree between two hard breaks, in which a range is badly cut.

    Stretches are packed independently and in any order, because all builders end a range at both
    ends of a stretch.

    Attributes:
        start: Position of its first range in the tree.
        stop: Position after its last range.
        size: Logical bytes of its records.
    """

    start: int
    stop: int
    size: int


class Recut(NamedTuple):
    """The result for a stretch.

    Attributes:
        bytes_read: Logical bytes of the ranges that were read.
        left: Number of ranges that are still badly cut, because the limit was reached.
    """

    infos: tuple[RangeInfo, ...]
    bytes_read: int
    left: int = 0


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of packing a tree.

    Attributes:
        metarange: Id of the packed tree, or of the old tree if nothing is badly cut.
        before: Number of ranges that were replaced.
        after: Number of ranges that replace them.
        bytes_read: Logical bytes of the ranges that were read.
        left: Number of ranges that are still badly cut, because the limit was reached.
    """

    metarange: str
    before: int = 0
    after: int = 0
    bytes_read: int = 0
    left: int = 0


@dataclass(slots=True)
class Packer:
    """Packs a tree, also a tree that changes meanwhile.

    Ranges that were cut again once are not read a second time, as long as the tree still has them.
    So a tree that grows while it is packed is packed after few attempts.

    Args:
        everything: Cut all ranges again, for a tree that was written under another policy.
        limit: Logical bytes after which no further ranges are read, or None for no limit.
    """

    store: RangeStore
    splitting: Splitting
    everything: bool = False
    limit: int | None = None
    _known: dict[bytes, _Part] = field(default_factory=dict)

    def pack(self, tree: str) -> Packed:
        """Pack a tree. The packed tree has the same records.

        Memory is bounded by one range, and by the concurrent uploads.
        """
        infos = metarange.read(self.store, tree)
        bad = self.bad(infos)
        found: list[Recut] = []
        read = 0
        stretches = self.stretches(infos, bad)
        for stretch in stretches:
            found.append(self.recut(infos, bad, stretch, already=read))
            read += found[-1].bytes_read
        return assemble(self.store, tree, stretches, found)

    def bad(self, infos: Sequence[RangeInfo]) -> Sequence[bool]:
        """Return for each range of a tree whether it is cut again.

        Args:
            infos: All ranges of the tree, in key order.
        """
        return [True] * len(infos) if self.everything else badly_cut(infos, self.splitting)

    def stretches(self, infos: Sequence[RangeInfo], bad: Sequence[bool]) -> list[Stretch]:
        """Return the stretches of a tree that have badly cut ranges.

        Args:
            infos: All ranges of the tree, in key order.
        """
        cutter = Cutter(self.splitting)
        found: list[Stretch] = []
        start = 0
        for at, info in enumerate(infos, 1):
            if at == len(infos) or cutter.hard(info.max_key, infos[at].min_key):
                if any(bad[start:at]):
                    found.append(Stretch(start, at, sum(each.size for each in infos[start:at])))
                start = at
        return found

    def recut(
        self,
        infos: Sequence[RangeInfo],
        bad: Sequence[bool],
        stretch: Stretch,
        *,
        already: int = 0,
    ) -> Recut:
        """Cut the badly cut ranges of a stretch again.

        Args:
            infos: All ranges of the tree, in key order.
            already: Logical bytes that were read before, for the limit.
        """
        made: list[RangeInfo] = []
        at, read, left = stretch.start, 0, 0
        while at < stretch.stop:
            if not bad[at] or (self.limit is not None and already + read >= self.limit):
                left += bad[at]
                made.append(infos[at])
                at += 1
                continue
            part = self._part(infos, bad, at, stretch.stop)
            stop = at + len(part[0])
            read += sum(info.size for info in infos[at:stop])
            made += part[2]
            at = stop
        return Recut(tuple(made), read, left)

    def _part(self, infos: Sequence[RangeInfo], bad: Sequence[bool], start: int, end: int) -> _Part:
        """Cut again from `start` to `end`, or until a new range ends where a good range starts."""
        known = self._known.get(infos[start].id)
        if known is not None and _is_there(infos, start, known):
            return known
        at, following = start, None
        with RangeWriter(self.store, self.splitting) as writer:
            while at < end:
                writer.add_all(self.store.open_range(infos[at], numbered=True).records())
                at += 1
                following = infos[at].min_key if at < len(infos) else None
                if (
                    at < end
                    and following is not None
                    and not bad[at]
                    and writer.ends_before(following)
                ):
                    break
            made = tuple(writer.finish(before=following))
        part = (tuple(info.id for info in infos[start:at]), following or b"", made)
        self._known[infos[start].id] = part
        return part


def assemble(
    store: RangeStore, tree: str, stretches: Sequence[Stretch], recuts: Sequence[Recut]
) -> Packed:
    """Publish the tree in which the results replace the stretches.

    Args:
        store: Where the tree and the new ranges are.
        stretches: The packed stretches, in order.
    """
    infos = metarange.read(store, tree)
    made: list[RangeInfo] = []
    at = 0
    for stretch, recut in zip(stretches, recuts, strict=True):
        made += [*infos[at : stretch.start], *recut.infos]
        at = stretch.stop
    made += infos[at:]
    bytes_read, left = sum(each.bytes_read for each in recuts), sum(each.left for each in recuts)
    old, new = set(infos), set(made)  # ranges that differ only in `natural` differ
    if old == new:
        return Packed(tree, left=left)
    if summary(made) != summary(infos):
        raise InternalError(f"packing tree {tree} gave other records: it was left as it is")
    return Packed(metarange.write(store, made), len(old - new), len(new - old), bytes_read, left)


def badly_cut(infos: Sequence[RangeInfo], splitting: Splitting) -> list[bool]:
    """Return for each range of a tree whether it is badly cut.

    Args:
        infos: All ranges of the tree, in key order.
    """
    # a range exceeds the largest size by one record at most
    most = splitting.max_bytes + RANGE_KEY_BYTES + ENTRY_BYTES
    bad = [not info.natural or info.size > most for info in infos]
    if infos and infos[-1].size <= most:
        bad[-1] = bad[-1] and len(bad) > 1 and bad[-2]
    return bad


@dataclass(frozen=True, slots=True)
class Backlog:
    """The badly cut ranges of a tree.

    Attributes:
        bytes: Approximate logical bytes that packing reads: of these ranges, and of the good range
            after each run of them.
    """

    ranges: int
    bytes: int


def backlog(infos: Sequence[RangeInfo], splitting: Splitting) -> Backlog:
    """Return the backlog of a tree.

    Args:
        infos: All ranges of the tree, in key order.
    """
    ranges = size = 0
    before = False
    for info, bad in zip(infos, badly_cut(infos, splitting), strict=True):
        ranges += bad
        size += info.size if bad or before else 0
        before = bad
    return Backlog(ranges, size)


def summary(infos: Sequence[RangeInfo]) -> tuple[int, int, bytes]:
    """Return count, logical bytes and total of the records of ranges. Cuts do not affect them."""
    return (
        sum(info.count for info in infos),
        sum(info.size for info in infos),
        add_totals(info.total for info in infos),
    )


def _is_there(infos: Sequence[RangeInfo], start: int, part: _Part) -> bool:
    ids, following, _ = part
    stop = start + len(ids)
    return tuple(info.id for info in infos[start:stop]) == ids and following == (
        infos[stop].min_key if stop < len(infos) else b""
    )
