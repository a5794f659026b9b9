"""Packing a tree: badly cut ranges are replaced by good ranges with the same records.

A range is badly cut if it is a fragment, or larger than the policy allows; the last one may be a
fragment. From each such range on, records are cut again, until the policy ends a range where a good
range starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from graveler.committed import metarange
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import Cutter, Splitting
from graveler.errors import InternalError
from graveler.model import ENTRY_BYTES, RANGE_KEY_BYTES, RangeInfo
from graveler.values import add_totals

_Part = tuple[tuple[bytes, ...], bytes, tuple[RangeInfo, ...]]


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of packing a tree.

    Attributes:
        metarange: Id of the packed tree, or of the old tree if nothing is badly cut.
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
    """

    store: RangeStore
    splitting: Splitting
    everything: bool = False
    limit: int | None = None
    _known: dict[bytes, _Part] = field(default_factory=dict)

    def pack(self, tree: str) -> Packed:
        """Pack a tree. The packed tree has the same records."""
        infos = metarange.read(self.store, tree)
        bad = [True] * len(infos) if self.everything else badly_cut(infos, self.splitting)
        made: list[RangeInfo] = []
        at = read = left = 0
        while at < len(infos):
            if not bad[at] or (self.limit is not None and read >= self.limit):
                left += bad[at]
                made.append(infos[at])
                at += 1
                continue
            ids, _, part = self._part(infos, bad, at)
            made += part
            read += sum(info.size for info in infos[at : at + len(ids)])
            at += len(ids)
        old, new = set(infos), set(made)  # ranges that differ only in `natural` differ
        if old == new:
            return Packed(tree, left=left)
        if summary(made) != summary(infos):
            raise InternalError(f"packing tree {tree} gave other records: it was left as it is")
        packed = metarange.write(self.store, made)
        return Packed(packed, len(old - new), len(new - old), read, left)

    def _part(self, infos: Sequence[RangeInfo], bad: Sequence[bool], start: int) -> _Part:
        """Cut again from `start` on, until a new range ends where a good range starts."""
        known = self._known.get(infos[start].id)
        if known is not None and _is_there(infos, start, known):
            return known
        cutter = Cutter(self.splitting)
        at, following = start, None
        with RangeWriter(self.store, self.splitting) as writer:
            while at < len(infos):
                writer.add_all(self.store.open_range(infos[at], numbered=True).records())
                at += 1
                following = infos[at].min_key if at < len(infos) else None
                if following is not None and (
                    cutter.hard(infos[at - 1].max_key, following)
                    or (not bad[at] and writer.ends_before(following))
                ):
                    break
            made = tuple(writer.finish(before=following))
        part = (tuple(info.id for info in infos[start:at]), following or b"", made)
        self._known[infos[start].id] = part
        return part


def badly_cut(infos: Sequence[RangeInfo], splitting: Splitting) -> list[bool]:
    """Return for each range of a tree whether it is badly cut."""
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
    """Return the backlog of a tree."""
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
