"""Packing a branch: its head's records in good ranges, as an ordinary commit that changes no path.

The commit lands by the protocol of every commit, beside writers and publishers. No gate judges it and
no rule forbids it, because its tree has exactly the records of its parent: their number, their bytes
and the sum of their ids are compared before it is written.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from graveler.committed import Backlog, Packed, Packer, backlog, badly_cut
from graveler.committed.metarange import read
from graveler.errors import GravelerError
from graveler.model import BranchRecord, Commit, RangeInfo
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs import resolve_to_read
from graveler.refs.pack_rule import PackRule

_log: Final = logging.getLogger(__name__)

PACK_PAIR: Final = "graveler.pack"
"""Metadata of the commits that pack: the ranges that were cut again, and what they became."""

CHEAP_RANGES: Final = 256
"""A publish packs no more badly cut ranges than this."""

CHEAP_SIZES: Final = 4
"""A publish packs no more bytes than this many ranges of the largest size have."""

_SMALL: Final = 4
_OBJECT_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class PackResult:
    """What packing a branch did.

    Attributes:
        commit: The commit that landed, None if nothing was badly cut.
        before: Ranges that are in the tree no more.
        after: Ranges that are there in their place.
        bytes_read: Logical bytes of the ranges that were read.
        left: Ranges that are badly cut still, because the limit was reached.
    """

    commit: Commit | None
    before: int
    after: int
    bytes_read: int
    left: int


def pack(  # noqa: PLR0913 - what, by what, and the words of the commit
    stores: Stores,
    name: str,
    *,
    everything: bool = False,
    limit: int | None = None,
    message: str = "",
    committer: str = "",
    by: Callable[[str], Packed] | None = None,
) -> PackResult:
    """Cut the badly cut ranges of a branch's head again, in a commit that changes no path.

    Args:
        stores: The repository.
        name: The branch.
        everything: Cut all ranges again, after a change of the splitting policy.
        limit: Logical bytes after which no further ranges are read; None: no limit.
        message: Of the commit; "" for one that counts ranges.
        committer: Name; "" stands for the user of the process.
        by: What packs the tree of a metarange id; None: this process.

    Raises:
        RefNotFoundError: No such branch.
        FencedError: The branch belongs to a run.
        CorruptionError: A range cannot be read; the branch stays as it is.
    """
    by = by or Packer(stores.ranges, stores.splitting, everything, limit).pack
    packed = Packed("")

    def build(tip: Tip) -> BranchRecord | None:
        nonlocal packed
        packed = by(tip.head.metarange)
        if packed.metarange == tip.head.metarange:
            return None
        spec = CommitSpec(
            message or f"Pack: {packed.before} ranges became {packed.after}",
            {PACK_PAIR: f"{packed.before} {packed.after}"},
            committer,
        )
        made = make_commit(
            stores, tree=packed.metarange, parents=(tip.head,), spec=spec, same_records=True
        )
        return tip.at(made)

    landed = land(stores, name, "pack", build)
    return PackResult(landed.commit, packed.before, packed.after, packed.bytes_read, packed.left)


def waiting(stores: Stores, head: Commit) -> Backlog:
    """Return what is badly cut in the tree of a commit; only its metarange is read."""
    return backlog(read(stores.ranges, head.metarange), stores.splitting)


def pack_published(stores: Stores, name: str, head: Commit, rule: PackRule) -> None:
    """Pack a branch in the background, if the rule asks for it and it is cheap.

    Called after a publish has landed, and never fails. The tree of the commit is still in memory, so
    that nothing is read unless the branch is packed. What is not cheap is left to `maintain`.

    Args:
        stores: The repository.
        name: The branch.
        head: The commit that landed.
        rule: When branches are packed.
    """
    if not rule.covers(name, stores.default_branch):
        return

    def task() -> None:
        try:
            found, most = waiting(stores, head), CHEAP_SIZES * stores.splitting.max_bytes
            if rule.after <= found.ranges <= CHEAP_RANGES and found.bytes <= most:
                pack(stores, name, limit=most)
        except GravelerError as error:
            _log.warning("branch %s was not packed: %s", name, error)

    stores.staging.background.run(task)


@dataclass(frozen=True, slots=True)
class TreeStats:
    """How the tree of a commit is cut into ranges. All sizes are logical bytes.

    Attributes:
        commit: Id of the commit.
        entries: Entries of the tree.
        bytes: Bytes of their records.
        ranges: Ranges.
        small: Ranges of less than a quarter of the average that the policy aims at.
        fragments: Ranges that a commit ended, not the policy.
        smallest: Bytes of the smallest range.
        median: Bytes of the median range.
        largest: Bytes of the largest range.
        badly_cut: Ranges that a pack would read.
        badly_cut_bytes: Their bytes; a pack may read some ranges more.
        packed_ranges: Ranges of the tree after a pack, about.
        scan_cost: What a cold listing reads, in objects of no bytes: one for each object, and one for
            each 4 MiB.
        packed_scan_cost: The same after a pack, about.
    """

    commit: str
    entries: int
    bytes: int
    ranges: int
    small: int
    fragments: int
    smallest: int
    median: int
    largest: int
    badly_cut: int
    badly_cut_bytes: int
    packed_ranges: int
    scan_cost: float
    packed_scan_cost: float


def tree_stats(stores: Stores, ref: str) -> TreeStats:
    """Return how the tree that `ref` names is cut; only its metarange is read.

    Raises:
        RefNotFoundError: No such ref.
        ExpiredError: Garbage collection has removed the tree.
    """
    commit = resolve_to_read(stores.refs, ref)
    infos = read(stores.ranges, commit.metarange)
    splitting = stores.splitting
    usual = splitting.usual_bytes
    sizes = sorted(info.size for info in infos)
    bad = [info for info, badly in zip(infos, badly_cut(infos, splitting), strict=True) if badly]
    bad_bytes = _bytes(bad)
    packed = len(infos) - len(bad) + (max(1, round(bad_bytes / usual)) if bad else 0)
    whole = _bytes(infos)
    return TreeStats(
        commit=commit.id,
        entries=sum(info.count for info in infos),
        bytes=whole,
        ranges=len(infos),
        small=sum(size < usual / _SMALL for size in sizes),
        fragments=sum(not info.natural for info in infos),
        smallest=sizes[0] if sizes else 0,
        median=sizes[len(sizes) // 2] if sizes else 0,
        largest=sizes[-1] if sizes else 0,
        badly_cut=len(bad),
        badly_cut_bytes=bad_bytes,
        packed_ranges=packed,
        scan_cost=round(len(infos) + whole / _OBJECT_BYTES, 1),
        packed_scan_cost=round(packed + whole / _OBJECT_BYTES, 1),
    )


def _bytes(infos: Sequence[RangeInfo]) -> int:
    return sum(info.size for info in infos)
