"""A merge in slices: where the trees of a merge can be cut, so that builders work independently.

A slice ends after a key of the merged tree that is a break key (see `slices`), at a place where no
range of any tree continues. The metaranges show these places, with one exception. In a segment that
is opened, the merged tree may lack a key that both sides have, because a resolver deletes it. The
builder of a slice must therefore check how the slice ends. The driver handles slices in which no
range is opened.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from graveler.committed.diff import Segment, Side
from graveler.committed.splitting import Cutter, Splitting
from graveler.committed.tree import Tree
from graveler.model import RangeInfo

if TYPE_CHECKING:
    from graveler.committed.merge import Earlier, RawConflict


class Slice(NamedTuple):
    """A part of the trees of a merge.

    Attributes:
        after: The key after which it begins, or b"" for the first slice.
        upto: The last key of any tree in it, or None for the last slice.
        size: Approximate logical bytes of the ranges that are opened, or 0 if none is.
    """

    after: bytes = b""
    upto: bytes | None = None
    size: int = 0

    def of(self, tree: Tree) -> Tree:
        """Return the ranges of a tree that are in the slice."""
        start = self.after and self.after + b"\0"
        return tree.within(start, None if self.upto is None else self.upto + b"\0")


WHOLE = Slice()


class Order(NamedTuple):
    """The input of a merge.

    Attributes:
        torn: The units that stay as in the destination.
    """

    base: str
    source: str
    dest: str
    earlier: "Earlier | None"
    torn: tuple[bytes, ...]
    splitting: Splitting


class MergedSlice(NamedTuple):
    """The result of merging a slice.

    Attributes:
        infos: Its ranges, all of them in the store. Empty if there are conflicts.
        conflicts: The first conflicts.
        logs: The logs that the walk has met.
    """

    infos: Sequence[RangeInfo]
    conflicts: "Sequence[RawConflict]"
    conflict_count: int
    logs: Sequence[bytes]


class Tasks(NamedTuple):
    """Tasks that merge slices.

    Attributes:
        run: Returns the result of `merge_slice` for each slice.
        share: Approximate logical bytes of the ranges that a task opens.
        least: The minimum number of bytes for which tasks are used. Below it, this process merges.
    """

    run: Callable[[Order, Sequence[Slice]], Sequence[MergedSlice]]
    share: int
    least: int = 0


class Step(NamedTuple):
    """A step of the walk of a merge.

    Attributes:
        shared: Ranges that all trees have.
        size: Logical bytes that are opened in the segment after them, or 0.
        end: The last key of any tree in the segment, or b"" if there is no segment.
        last: The range whose last key ends the merged segment, as far as metaranges tell.
    """

    shared: Tree
    size: int = 0
    end: bytes = b""
    last: RangeInfo | None = None

    @classmethod
    def of(cls, shared: Tree, segment: Segment | None, taken: Side | None, count: int) -> "Step":
        """Return the step of a segment.

        Args:
            shared: The shared ranges before the segment.
            segment: The bases, the source, the destination, and perhaps an earlier merge.
            taken: The side that is the result without a change, or None if the segment is opened.
            count: The number of bases.
        """
        if segment is None:
            return cls(shared)
        end = max(side[-1].max_key for side in segment if side)
        if taken is not None:
            return cls(shared, 0, end, taken[-1] if taken else None)
        source, dest = segment[count : count + 2]
        size = sum(info.size for side in segment[: count + 2] for info in side)
        both = bool(source and dest) and source[-1].max_key == dest[-1].max_key
        return cls(shared, size, end, dest[-1] if both else None)


def cut(
    steps: Iterable[Step], splitting: Splitting, share: int, refused: Container[bytes] = ()
) -> list[Slice]:
    """Return slices with about `share` bytes to open, and the slices between them.

    Args:
        share: Logical bytes.
        refused: Keys at which slices must not end.
    """
    slicer = _Slicer(splitting, share, refused)
    for step in steps:
        slicer.add_shared(step.shared)
        slicer.add_segment(step)
    slicer.close(None)
    return slicer.found


class _Slicer:
    """Cuts the walk of a merge into slices."""

    def __init__(self, splitting: Splitting, share: int, refused: Container[bytes]) -> None:
        self._cutter = Cutter(splitting)
        self._share = share
        self._refused = refused
        self._after = b""
        self._size = 0  # bytes to open since then
        self._before = b""  # the last possible cut, as long as nothing is opened
        self.found: list[Slice] = []

    def add_shared(self, shared: Tree) -> None:
        """Add ranges that all trees have."""
        places = range(len(shared))
        if self._size >= self._share and (key := self._end_among(shared, places)):
            self.close(key)
        if not self._size:
            self._before = self._end_among(shared, places[::-1]) or self._before

    def _end_among(self, shared: Tree, places: Iterable[int]) -> bytes:
        """Return the first last key of a range at which the trees can be cut, or b""."""
        for place in places:
            key = shared.last_key(place)
            if self._cutter.hard(key, None) and shared[place].natural and key not in self._refused:
                return key
        return b""

    def add_segment(self, step: Step) -> None:
        """Add the segment of a step, if there is one."""
        if step.size and not self._size and self._before > self._after:
            self.close(self._before)
        self._size += step.size
        info = step.last
        if info is None or not info.natural or step.end in self._refused:
            return
        if self._cutter.hard(info.max_key, None):
            if self._size >= self._share:
                self.close(step.end)
            elif not self._size:
                self._before = step.end

    def close(self, upto: bytes | None) -> None:
        """End the slice with a key, or with the trees for None."""
        self.found.append(Slice(self._after, upto, self._size))
        self._after, self._size = upto or b"", 0
