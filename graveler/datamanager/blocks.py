"""All blocks in arrays: the copies that servers have beside the copies that roots need."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graveler.datamanager.indexes import keys
from graveler.keep.locators import EMPTY

_HALF = 16
_MOST = 2**16 - 1
Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Blocks that a root needs. A root may have several sources.

    Attributes:
        root: What needs the blocks: a collection, or a repository with its branches and runs.
        owner: Whom the use is charged to.
        blocks: An array of `KEY`. Each block once is enough.
        wanted: The number of copies; None for the system's number.
        classes: The storage classes in which they are.
    """

    root: str
    owner: str
    blocks: NDArray[np.void]
    wanted: int | None = None
    classes: tuple[str, ...] = ("default",)


@dataclass(frozen=True, slots=True)
class Usage:
    """What an owner's roots need, each block's bytes counted once.

    Attributes:
        referenced: The bytes of all its blocks.
        unique: The bytes of the blocks that no other owner needs.
        share: The owner's part of the other blocks, each divided evenly among its owners.
    """

    owner: str
    referenced: int
    unique: int
    share: int


def _counted(rows: NDArray[np.void], prefix: str) -> NDArray[np.void]:
    """Return the blocks with a prefix. Every server has the empty block without storing it."""
    found = rows != keys([EMPTY])[0]
    for name, digits in (("high", prefix[:_HALF]), ("low", prefix[_HALF:])):
        if digits:
            shift = np.uint64(4 * (_HALF - len(digits)))
            found &= rows[name].astype(np.uint64) >> shift == np.uint64(int(digits, 16))
    kept: NDArray[np.void] = rows[found]
    return kept


class Blocks:
    """Blocks in the order of their digests, their copies, and the rows of the sources.

    Args:
        indexes: The copies on each volume, arrays of `COPY`.
        replication: The number of copies for sources that state none.
        prefix: Only blocks whose digests begin so.

    Attributes:
        high, low, size: The key of each block.
        starts: Where the copies of each block begin, and the end.
        volume, mtime: Of each copy, the position of its volume, and its mtime in ns.
        wanted: For each class, how many copies of each block are wanted.
    """

    def __init__(
        self,
        indexes: Sequence[NDArray[np.void]],
        sources: Iterable[Source],
        replication: int,
        prefix: str = "",
    ) -> None:
        self.sources: list[Source] = []
        rows: list[NDArray[np.void]] = []
        for source in sources:
            self.sources.append(source)
            rows.append(_counted(source.blocks, prefix))
        self._replication = replication
        copies = sum(map(len, indexes))
        high, low, size = (
            np.concatenate([np.empty(0, kind), *(part[name] for part in (*indexes, *rows))])
            for name, kind in (("high", np.uint64), ("low", np.uint64), ("size", np.uint32))
        )
        order = np.lexsort((size, low, high))
        high, low, size = high[order], low[order], size[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1]) | (size[1:] != size[:-1])
        self.high, self.low, self.size = high[new], low[new], size[new]
        del high, low, size
        block = np.empty(len(order), np.uint32)
        block[order] = np.cumsum(new, dtype=np.uint32) - np.uint32(1)
        self.rows = block[copies:].copy()
        order = order[order < copies]
        self._place(block[order], order, indexes)
        self.ends = np.cumsum([0, *map(len, rows)])
        self.wanted = self._wanted()

    def _place(self, block: Numbers, order: Numbers, indexes: Sequence[NDArray[np.void]]) -> None:
        """Set the copies. An index may have a line twice: the later mtime counts."""
        lengths = [len(index) for index in indexes]
        volume = np.repeat(np.arange(len(indexes), dtype=np.uint16), lengths)[order]
        mtime = np.concatenate([np.empty(0, np.int64), *(each["mtime"] for each in indexes)])[order]
        new = np.ones(len(block), np.bool_)
        new[1:] = (block[1:] != block[:-1]) | (volume[1:] != volume[:-1])
        if not new.all():
            mtime = np.maximum.reduceat(mtime, np.flatnonzero(new))
            block, volume = block[new], volume[new]
        self.volume, self.mtime = volume, mtime
        self.starts = np.searchsorted(block, np.arange(len(self.size) + 1, dtype=np.uint32))

    def _wanted(self) -> dict[str, Numbers]:
        """Return what is wanted, by class. The largest number is written last, whatever the order."""
        wanted: dict[str, Numbers] = {}
        numbers = [self._replication if s.wanted is None else s.wanted for s in self.sources]
        for at in sorted(range(len(numbers)), key=numbers.__getitem__):
            for name in self.sources[at].classes or ("default",):
                row = wanted.setdefault(name, np.zeros(len(self), np.uint16))
                row[self._of(at)] = min(numbers[at], _MOST)
        return dict(sorted(wanted.items()))

    def _of(self, source: int) -> Numbers:
        return self.rows[self.ends[source] : self.ends[source + 1]]

    def __len__(self) -> int:
        return len(self.size)

    @property
    def copies(self) -> Numbers:
        """The number of copies of each block."""
        return np.diff(self.starts)

    def digest(self, block: int) -> str:
        """Return the digest of a block."""
        return f"{int(self.high[block]):016x}{int(self.low[block]):016x}"

    def locator(self, block: int) -> str:
        """Return the locator of a block."""
        return f"{self.digest(block)}+{int(self.size[block])}"

    def roots(self, block: int) -> list[str]:
        """Return the roots that need a block."""
        found = np.searchsorted(self.ends, np.flatnonzero(self.rows == block), "right") - 1
        return sorted({self.sources[at].root for at in found})

    def usage(self) -> tuple[Usage, ...]:
        """Return the use of each owner."""
        owners = sorted({source.owner for source in self.sources})
        number = {owner: at for at, owner in enumerate(owners)}
        owner = np.array([number[source.owner] for source in self.sources], np.uint64)
        rows = np.repeat(owner, np.diff(self.ends))
        radix = np.uint64(len(owners) or 1)
        block, owner = np.divmod(np.unique(self.rows.astype(np.uint64) * radix + rows), radix)
        size = self.size[block].astype(np.float64)
        sharing = np.bincount(block.astype(np.int64), minlength=len(self))[block]
        alone = np.where(sharing == 1, size, 0)
        sums = [
            np.rint(np.bincount(owner.astype(np.int64), each, len(owners))).astype(np.int64)
            for each in (size, alone, (size - alone) / sharing)
        ]
        return tuple(map(Usage, owners, *(each.tolist() for each in sums)))

    def present(self, counts: Mapping[str, Sequence[int]]) -> dict[str, Numbers]:
        """Return for each class how many copies of each block there are.

        Args:
            counts: For each class, the copies that each volume counts as.
        """
        block = np.repeat(np.arange(len(self)), self.copies)
        return {
            name: np.bincount(block, np.array(each, np.int64)[self.volume], len(self)).astype(
                np.int64
            )
            for name, each in counts.items()
        }

    def confirmed(self, present: Mapping[str, Numbers]) -> dict[str, int]:
        """Return for each root how many copies every one of its blocks has, at most the wanted."""
        found: dict[str, int] = {}
        for at, source in enumerate(self.sources):
            least = self._replication if source.wanted is None else source.wanted
            for name in source.classes or ("default",):
                if len(rows := self._of(at)):
                    least = min(least, int(present[name][rows].min()))
            found[source.root] = min(least, found.get(source.root, least))
        return found
