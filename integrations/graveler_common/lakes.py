"""Lakes that exist: opened for one task, or kept open for a whole process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import graveler
from graveler.config import locate_lake
from graveler.errors import BackendUnavailableError, NotFoundError
from graveler.lake import Lake

__all__ = ["Lakes", "open_lake"]


def open_lake(location: str | Path) -> Lake:
    """Open the lake at `location`, its folder or a ``graveler.toml``; never create one.

    Raises:
        BackendUnavailableError: There is no lake, or it cannot be reached now. A retry may find it.
    """
    with _absence_is_unavailability():
        return graveler.open(location)


class Lakes:
    """The open lakes of a process: one for each location, shared by all its steps and sensors."""

    def __init__(self) -> None:
        self._open: dict[str, Lake] = {}
        self._lock = Lock()

    def get(self, location: str) -> Lake:
        """Return the lake at `location`; the first call opens it.

        Raises:
            BackendUnavailableError: There is no lake, or it cannot be reached now.
        """
        with _absence_is_unavailability():
            locate_lake(location)  # each time: the volume under an open lake may disappear
        with self._lock:
            if location not in self._open:
                self._open[location] = open_lake(location)
            return self._open[location]

    def close(self) -> None:
        """Close every lake; the next `get` opens it again."""
        with self._lock:
            for lake in self._open.values():
                lake.close()
            self._open.clear()


@contextmanager
def _absence_is_unavailability() -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise BackendUnavailableError(f"{error} (is its volume mounted on this host?)") from error
