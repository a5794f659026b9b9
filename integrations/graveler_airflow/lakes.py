"""Opening a lake that is there."""

from pathlib import Path

import graveler
from graveler.errors import BackendUnavailableError, NotFoundError
from graveler.lake import Lake

__all__ = ["open_lake"]


def open_lake(location: str | Path) -> Lake:
    """Open the lake at `location`, its folder or a ``graveler.toml``; never make one.

    Raises:
        BackendUnavailableError: There is no lake, or not now: a later try may find it.
    """
    try:
        return graveler.open(location)
    except NotFoundError as error:
        raise BackendUnavailableError(f"{error} (is its volume mounted on this worker?)") from error
