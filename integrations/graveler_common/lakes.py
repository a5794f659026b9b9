"""Existing lakes: one that is opened for a task, or one that a whole process shares."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import graveler
from graveler.config import locate_lake
from graveler.errors import BackendUnavailableError, NotFoundError
from graveler.lake import Lake
from graveler.lake.shared import lake_at


def open_lake(location: str | Path) -> Lake:
    """Open the lake at `location`, as ``graveler.open`` does; never create one."""
    with _absence_is_unavailability():
        return graveler.open(location)


def shared_lake(location: str) -> Lake:
    """Return the lake at `location` that this process shares, opened on first use."""
    with _absence_is_unavailability():
        # locate the lake each time, because the volume of an open lake may disappear
        return lake_at(locate_lake(location))


@contextmanager
def _absence_is_unavailability() -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        unavailable = BackendUnavailableError(f"{error} (is its volume mounted on this host?)")
        # it replaces the error, which would otherwise be in the log of a task twice
        raise unavailable.with_traceback(error.__traceback__) from error.__cause__
