"""A tree with badly cut ranges in, the same records in good ranges out.

A range is badly cut if it is not what the policy makes of its records: it is a fragment, or larger than
the policy allows. From each such range on, records are cut again, until the policy ends a range where a
good one starts: at the next hard break at the latest, because all builders end a range there. The last
range of a tree may be a fragment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from graveler.committed import metarange
from graveler.committed.range_store import RangeStore
from graveler.committed.range_writer import RangeWriter
from graveler.committed.splitting import Splitting
from graveler.errors import InternalError
from graveler.model import ENTRY_BYTES, PATH_BYTES, RangeInfo
from graveler.values import add_totals

_Part = tuple[tuple[bytes, ...], bytes, tuple[RangeInfo, ...]]


@dataclass(frozen=True, slots=True)
class Packed:
    """What packing a tree gave.

    Attributes:
        metarange: Id of the packed tree; the tree's own where nothing is badly cut.
        before: Ranges that were cut again.
        after: Ranges that they became.
        bytes_read: Logical bytes of their records.
        left: Ranges that are badly cut still, because the limit was reached.
    """

    metarange: str
    before: int = 0
    after: int = 0
    bytes_read: int = 0
    left: int = 0


@dataclass(slots=True)
class Packer:
    """Packs a tree, and what it becomes meanwhile.

    What was cut again once is not read a second time, as long as the tree still has the same ranges
    there. So a tree that grows while it is packed is packed after few tries.

    Args:
        store: Where the tree is.
        splitting: The policy.
        everything: Cut all ranges again, for a tree that was written under another policy.
        limit: Logical bytes after which no further ranges are read; None: no limit.
    """

    store: RangeStore
    splitting: Splitting
    everything: bool = False
    limit: int | None = None
    _known: dict[bytes, _Part] = field(default_factory=dict)

    def pack(self, tree: str) -> Packed:
        """Return what a tree becomes; its records are the same.

        Memory is bounded by one range, and by what is uploaded at a time.

        Args:
            tree: Metarange id.

        Raises:
            CorruptionError: A range cannot be read.
        """
        infos = metarange.read(self.store, tree)
        bad = [True] * len(infos) if self.everything else badly_cut(infos, self.splitting)
        made: list[RangeInfo] = []
        at = before = after = done = left = 0
        while at < len(infos):
            if not bad[at] or (self.limit is not None and done >= self.limit):
                left += bad[at]
                made.append(infos[at])
                at += 1
                continue
            part = self._part(infos, bad, at)
            stop = at + len(part[0])
            if part[2] != tuple(infos[at:stop]):
                before += stop - at
                after += len(part[2])
                done += sum(info.size for info in infos[at:stop])
            made += part[2]
            at = stop
        if not before:
            return Packed(tree, left=left)
        if summary(made) != summary(infos):
            raise InternalError(f"packing tree {tree} gave other records: it was left as it is")
        return Packed(metarange.write(self.store, made), before, after, done, left)

    def _part(self, infos: Sequence[RangeInfo], bad: Sequence[bool], start: int) -> _Part:
        """Cut again from a range on, until a good range starts where the policy ends one."""
        known = self._known.get(infos[start].id)
        if known is not None and _is_there(infos, start, known):
            return known
        at, following = start, None
        with RangeWriter(self.store, self.splitting) as writer:
            while at < len(infos):
                writer.add_all(self.store.open_range(infos[at], numbered=True).records())
                at += 1
                following = infos[at].min_key if at < len(infos) else None
                if following is not None and not bad[at] and writer.ends_before(following):
                    break
            made = tuple(writer.finish(before=following))
        part = (tuple(info.id for info in infos[start:at]), following or b"", made)
        self._known[infos[start].id] = part
        return part


def badly_cut(infos: Sequence[RangeInfo], splitting: Splitting) -> list[bool]:
    """Return which ranges of a tree are badly cut.

    Args:
        infos: All ranges of the tree, in key order.
        splitting: The policy.
    """
    # a range exceeds the largest size by one record at most
    most = splitting.max_bytes + PATH_BYTES + ENTRY_BYTES
    bad = [not info.natural or info.size > most for info in infos]
    if infos and infos[-1].size <= most:
        bad[-1] = bad[-1] and len(bad) > 1 and bad[-2]
    return bad


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is badly cut in a tree.

    Attributes:
        ranges: Badly cut ranges.
        bytes: Logical bytes that a pack reads, about: of these ranges, and of the good range behind
            each run of them.
    """

    ranges: int
    bytes: int


def backlog(infos: Sequence[RangeInfo], splitting: Splitting) -> Backlog:
    """Return what is badly cut in a tree.

    Args:
        infos: All ranges of the tree, in key order.
        splitting: The policy.
    """
    ranges = size = 0
    before = False
    for info, bad in zip(infos, badly_cut(infos, splitting), strict=True):
        ranges += bad
        size += info.size if bad or before else 0
        before = bad
    return Backlog(ranges, size)


def summary(infos: Sequence[RangeInfo]) -> tuple[int, int, bytes]:
    """Return count, logical bytes and total of the records of some ranges, however they are cut."""
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
