"""The trees that a process has read, decoded."""

from collections import OrderedDict
from threading import Lock

from graveler.base.forks import watch
from graveler.committed.tree import Tree

_MAX_RANGES = 200_000
_MAX_TREES = 4_096
"""A tree may have a file mapped, and a process has a limit of those: 65,530 on Linux."""


class MetarangeMemory:
    """Decoded metaranges by id, bounded in number and by the total number of their ranges."""

    def __init__(self, max_ranges: int = _MAX_RANGES, max_trees: int = _MAX_TREES) -> None:
        self._most = max_ranges, max_trees
        self._count = 0
        self._kept: OrderedDict[str, Tree] = OrderedDict()
        self._last: tuple[str, Tree | None] = "", None
        self._lock = Lock()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock and count again: a thread of the parent may have held the lock."""
        self._lock = Lock()
        self._count = sum(map(len, self._kept.values()))

    def get(self, metarange: str) -> Tree | None:
        """Return the ranges of a metarange, or None if it is not in memory."""
        last = self._last
        if last[0] == metarange:  # no lock: this runs for each lookup
            return last[1]
        with self._lock:
            tree = self._kept.get(metarange)
            if tree is not None:
                self._kept.move_to_end(metarange)
                self._last = metarange, tree
            return tree

    def put(self, metarange: str, tree: Tree) -> None:
        """Keep the ranges of a metarange, and drop the least recently used ones."""
        with self._lock:
            self._count += len(tree) - len(self._kept.pop(metarange, ()))
            self._kept[metarange] = tree
            while self._count > self._most[0] or len(self._kept) > self._most[1]:
                self._count -= len(self._kept.popitem(last=False)[1])
            self._last = metarange, self._kept.get(metarange)

    def clear(self) -> None:
        """Drop all metaranges."""
        with self._lock:
            self._kept.clear()
            self._count = 0
            self._last = "", None
