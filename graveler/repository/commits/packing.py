"""Packing a branch: its head's records in good ranges, as an ordinary commit that changes no path.

No gate judges it and no rule forbids it, because its tree has exactly the records of its parent.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from graveler.committed.metarange import read
from graveler.committed.pack import Backlog, Packed, Packer, backlog, badly_cut
from graveler.errors import GravelerError
from graveler.model import BranchRecord, Commit, RangeInfo
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs.expression import resolve_to_read
from graveler.refs.pack_rule import PackRule

_log = logging.getLogger(__name__)

PACK_PAIR = "graveler.pack"
"""Metadata of packing commits: the numbers of replaced and of new ranges."""

CHEAP_RANGES = 256
"""The maximum number of badly cut ranges that a publish packs."""

CHEAP_SIZES = 4
"""The maximum size that a publish packs, in ranges of the largest size."""

_SMALL = 4
_OBJECT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class PackResult:
    """The result of packing a branch.

    Attributes:
        commit: The commit that landed, or None if nothing was badly cut.
        bytes_read: Logical bytes of the ranges that were read.
        left: Number of ranges that are still badly cut, because the limit was reached.
    """

    commit: Commit | None
    before: int
    after: int
    bytes_read: int
    left: int


def pack(
    stores: Stores,
    name: str,
    *,
    everything: bool = False,
    limit: int | None = None,
    message: str = "",
    committer: str = "",
) -> PackResult:
    """Cut the badly cut ranges of a branch's head again, in a commit that changes no path."""
    packer = Packer(stores.ranges, stores.splitting, everything, limit)
    packed = Packed("")

    def build(tip: Tip) -> BranchRecord | None:
        nonlocal packed
        packed = packer.pack(tip.head.metarange)
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
    """Return the backlog of the tree of a commit. Only its metarange is read."""
    return backlog(read(stores.ranges, head.metarange), stores.splitting)


def pack_published(stores: Stores, name: str, head: Commit, rule: PackRule) -> None:
    """Pack a branch in the background, if the rule requires it and it is cheap.

    This is called after a publish has landed, and never fails. The tree of the commit is still in
    memory, so nothing is read unless the branch is packed. Expensive packing is left to `maintain`.
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
    """Statistics of the ranges of a commit's tree. All sizes are logical bytes.

    Attributes:
        small: Number of ranges with less than a quarter of the policy's average size.
        fragments: Number of ranges that a commit ended, not the policy.
        badly_cut_bytes: Size of these ranges. Packing may read some more ranges.
        scan_cost: The cost of a cold listing: one unit for each object, and one for each 4 MiB.
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
    """Return the statistics of the tree of `ref`. Only its metarange is read."""
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
