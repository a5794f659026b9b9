"""Where two trees differ, told by their metaranges alone."""

from collections.abc import Sequence
from typing import Final

from graveler.committed import metarange
from graveler.committed.range_store import RangeStore
from graveler.committed.sweep import segments, split_common
from graveler.model import RangeInfo

__all__ = ["differing_spans"]

_MOST: Final = 16

Span = tuple[bytes, bytes]


def differing_spans(store: RangeStore, left: str, right: str) -> tuple[Span, ...]:
    """Return first and last key of each stretch of ranges that one tree has and the other not.

    In key order, at most 16: of more, neighbours are joined. What differs lies within them;
    what lies within them need not differ. No range is opened.

    Args:
        store: Where the trees are.
        left: Metarange id.
        right: Metarange id.
    """
    if left == right:
        return ()
    _, rest = split_common(_infos(store, left), _infos(store, right))
    spans = [
        (
            min(side[0].min_key for side in segment if side),
            max(side[-1].max_key for side in segment if side),
        )
        for segment in segments(*rest)
    ]
    step = -(-len(spans) // _MOST)
    return tuple(
        (spans[at][0], spans[min(at + step, len(spans)) - 1][1])
        for at in range(0, len(spans), step or 1)
    )


def _infos(store: RangeStore, tree: str) -> Sequence[RangeInfo]:
    """Return a tree's ranges; who has just built one of the other has both in memory."""
    infos = store.metaranges.get(tree)
    return metarange.read(store, tree) if infos is None else infos
