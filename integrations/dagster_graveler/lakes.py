"""The lakes that this process has open: one each, however many steps and sensors use it."""

import atexit
from threading import Lock
from typing import Final

import graveler
from graveler.lake import Lake

__all__ = ["close_lakes", "open_lake"]

_lakes: Final[dict[str, Lake]] = {}
_lock: Final = Lock()


def open_lake(location: str) -> Lake:
    """Return the lake at `location`, opened by the first who asks."""
    with _lock:
        if location not in _lakes:
            _lakes[location] = graveler.open(location)
        return _lakes[location]


def close_lakes() -> None:
    """Close all of them; who asks next opens anew."""
    with _lock:
        for lake in _lakes.values():
            lake.close()
        _lakes.clear()


atexit.register(close_lakes)
