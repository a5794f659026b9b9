"""The metaranges used last, decoded."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from graveler.model import RangeInfo

__all__ = ["MetarangeMemory"]

_MAX_RANGES: Final = 200_000


class MetarangeMemory:
    """Decoded metaranges by id, bounded by the ranges they list together."""

    def __init__(self, max_ranges: int = _MAX_RANGES) -> None:
        self._max = max_ranges
        self._count = 0
        self._kept: OrderedDict[str, tuple[RangeInfo, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, metarange: str) -> tuple[RangeInfo, ...] | None:
        """Return the ranges of a metarange, None where it has to be read."""
        with self._lock:
            infos = self._kept.get(metarange)
            if infos is not None:
                self._kept.move_to_end(metarange)
            return infos

    def put(self, metarange: str, infos: tuple[RangeInfo, ...]) -> None:
        """Keep the ranges of a metarange, forgetting those used longest ago."""
        with self._lock:
            self._count += len(infos) - len(self._kept.pop(metarange, ()))
            self._kept[metarange] = infos
            while self._count > self._max:
                self._count -= len(self._kept.popitem(last=False)[1])
