"""The lakes that this process has open: one each, however many steps and sensors use it."""

import atexit
from threading import Lock
from typing import Final

from dagster_graveler.run.leases import forget_runs
from graveler.config import load_config, locate_lake
from graveler.errors import BackendUnavailableError, NotFoundError
from graveler.lake import Lake
from graveler.lake.factory import connect

__all__ = ["close_lakes", "open_lake"]

_lakes: Final[dict[str, Lake]] = {}
_lock: Final = Lock()


def open_lake(location: str) -> Lake:
    """Return the lake at `location`, opened by the first who asks; never make one.

    Raises:
        BackendUnavailableError: There is no lake, or not now: a later try may find it.
    """
    try:
        locate_lake(location)  # every time: a volume may be gone under an open lake
    except NotFoundError as error:
        raise BackendUnavailableError(f"{error} (is its volume mounted here?)") from error
    with _lock:
        if location not in _lakes:
            _lakes[location] = connect(load_config(location))
        return _lakes[location]


def close_lakes() -> None:
    """Close all of them; who asks next opens anew."""
    forget_runs()
    with _lock:
        for lake in _lakes.values():
            lake.close()
        _lakes.clear()


atexit.register(close_lakes)
