"""The figures of a replay, and their costs by the model of an object store.

In the model an object below 512 KiB costs as much as one of 512 KiB, and a request costs as much as
4 MiB. Costs are in MiB.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from graveler.simulation.replay import Merge, Replay

_MIB = 1 << 20
REQUEST_BYTES = 4 * _MIB
"""Cost of a request, in bytes."""
LEAST_BYTES = 512 << 10
"""Lowest cost of an object, in bytes."""
_WELL_SIZED = (_MIB, 10 * _MIB)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a policy. Bytes are logical: those of keys and value records.

    Attributes:
        ranges_written: Ranges that a commit writes, on average.
        bytes_written: Bytes that a commit writes in ranges, on average.
        ranges_read: Ranges that a commit reads, on average.
        bytes_read: Bytes that a commit reads in ranges, on average.
        amplification: Bytes written over bytes of the changes.
        ranges_reused: Share of the ranges of all trees that were reused.
        bytes_reused: Share of the bytes of all trees that were in reused ranges.
        write_cost: Average cost of a commit in MiB: a request and an object for each range and for the
            metarange.
        sizes: Sizes that 10, 50 and 90 % of the ranges at the end do not exceed.
        small: Share of the ranges at the end that are below 1 MiB.
        well_sized: Share of the bytes at the end that are in ranges of 1 to 10 MiB.
        natural: Share of the ranges at the end that the policy ended, not a commit or the largest
            size.
        history_bytes: Bytes of all ranges that the history has written.
        listing_cost: Cost in MiB of reading all ranges at the end: a request and an object for each.
        merge: The merge, if the history has a second branch.
    """

    policy: str
    commits: int
    ranges_written: float
    bytes_written: float
    ranges_read: float
    bytes_read: float
    amplification: float
    ranges_reused: float
    bytes_reused: float
    write_cost: float
    ranges: int
    bytes: int
    sizes: tuple[int, int, int]
    small: float
    well_sized: float
    natural: float
    history_bytes: int
    listing_cost: float
    merge: Merge | None = None

    def shape(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


def cost_of(sizes: Iterable[int]) -> float:
    """Return the cost of putting or getting objects of these sizes, in MiB."""
    return sum(REQUEST_BYTES + max(size, LEAST_BYTES) for size in sizes) / _MIB


def figures(replay: Replay) -> Figures:
    """Return the figures of a replay."""
    steps, infos = replay.steps, replay.ranges
    count = len(steps) or 1
    written = sum(sum(step.written) for step in steps)
    ranges_written = sum(len(step.written) for step in steps)
    ranges = sum(step.ranges for step in steps)
    total = sum(step.size for step in steps)
    sizes = sorted(info.size for info in infos)
    size = sum(sizes)
    most = replay.policy.splitting.max_bytes
    return Figures(
        policy=replay.policy.name,
        commits=len(steps),
        ranges_written=ranges_written / count,
        bytes_written=written / count,
        ranges_read=sum(len(step.opened) for step in steps) / count,
        bytes_read=sum(sum(step.opened) for step in steps) / count,
        amplification=_share(written, sum(step.changed for step in steps)),
        ranges_reused=1 - _share(ranges_written, ranges),
        bytes_reused=1 - _share(written, total),
        write_cost=sum(cost_of((*step.written, step.metarange)) for step in steps) / count,
        ranges=len(infos),
        bytes=size,
        sizes=(_at(sizes, 0.1), _at(sizes, 0.5), _at(sizes, 0.9)),
        small=_share(sum(each < _MIB for each in sizes), len(sizes)),
        well_sized=_share(
            sum(each for each in sizes if _WELL_SIZED[0] <= each <= _WELL_SIZED[1]), size
        ),
        natural=_share(sum(info.natural and info.size < most for info in infos), len(infos)),
        history_bytes=replay.base + written,
        listing_cost=cost_of(sizes),
        merge=replay.merge,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _at(ordered: Sequence[int], share: float) -> int:
    """Return the value that a share of the values does not exceed; 0 without values."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
