"""The lakes that this process has open: one each, however many steps and sensors use it."""

import atexit
from pathlib import Path
from threading import Lock
from typing import Final

from dagster_graveler.attached import forget_runs
from graveler.config import CONFIG_NAME, load_config
from graveler.errors import BackendUnavailableError
from graveler.lake import Lake
from graveler.lake.factory import connect

__all__ = ["close_lakes", "open_lake"]

_lakes: Final[dict[str, Lake]] = {}
_lock: Final = Lock()


def open_lake(location: str) -> Lake:
    """Return the lake at `location`, opened by the first who asks.

    Unlike ``graveler.open`` it never makes one: on a worker an empty folder is a volume that is
    not mounted, and a new lake in it would be a lake without a past.

    Raises:
        BackendUnavailableError: There is no lake, or not now.
    """
    path = Path(location).expanduser().absolute()
    settings = path if path.suffix == ".toml" else path / CONFIG_NAME
    try:
        there = settings.is_file()
    except OSError as error:
        raise BackendUnavailableError(f"no lake at {path}: {error}") from error
    if not there:
        raise BackendUnavailableError(
            f"no lake at {path} (there is no {settings.name}): is its volume mounted here? "
            f"A new lake is made with `graveler init {path}`"
        )
    with _lock:
        if location not in _lakes:
            _lakes[location] = connect(load_config(path))
        return _lakes[location]


def close_lakes() -> None:
    """Close all of them; who asks next opens anew."""
    forget_runs()
    with _lock:
        for lake in _lakes.values():
            lake.close()
        _lakes.clear()


atexit.register(close_lakes)
