"""The lakes that the filesystems of this process share, one for each location.

fsspec makes an instance for every thread and set of options. All instances use one open lake. The
child of a fork opens its own lakes and does not use those of its parent. The module does not import
fsspec, so that a lake can be shared before fsspec is loaded.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from graveler.base.forks import abandon
from graveler.config import environment, locate_lake
from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    from graveler.lake.lake import Lake


class _Open:
    """The open lakes of one process."""

    def __init__(self) -> None:
        self.lakes: dict[str, Lake] = {}
        self.lent: set[str] = set()
        self.lock = Lock()


_open: _Open = _Open()
_VARIABLE = "GRAVELER_LAKE"


def location_of(named: object) -> str:
    """Return the absolute path of the named lake, or of the lake that GRAVELER_LAKE names."""
    text = os.fspath(named) if isinstance(named, (str, os.PathLike)) else ""
    location = text or environment(_VARIABLE)
    if not location:
        raise InvalidInputError(
            "which lake? give storage_options={'lake': '/path/of/the/lake'}, or set "
            f"{_VARIABLE}: its folder or its graveler.toml; in Airflow, name the connection: "
            "grav://connection@repository/branch/path"
        )
    return location if location in _open.lakes else locate_lake(location)


def lake_at(location: str) -> "Lake":
    """Return the lake at a location, opened on first use and never created."""
    from graveler.lake.factory import open as open_lake

    shared = _open
    with shared.lock:
        lake = shared.lakes.get(location)
        if lake is None:
            lake = shared.lakes[location] = open_lake(location)
    return lake


def share_lake(lake: "Lake") -> None:
    """Let the filesystems of this process use an open lake, which its owner closes.

    Use it for a lake that admits one process only or is in memory. It replaces the lake that was
    opened at its location before.
    """
    with _open.lock:
        _open.lakes[lake.location] = lake
        _open.lent.add(lake.location)


@contextmanager
def lend_lake(lake: "Lake") -> Iterator[None]:
    """Share a lake for a block; the previous lake of its location returns afterwards."""
    shared = _open
    with shared.lock:
        before, was_lent = shared.lakes.get(lake.location), lake.location in shared.lent
    share_lake(lake)
    try:
        yield
    finally:
        with shared.lock:
            shared.lakes.pop(lake.location, None)
            shared.lent.discard(lake.location)
            if before is not None:
                shared.lakes[lake.location] = before
            if was_lent:
                shared.lent.add(lake.location)


def close_lakes() -> None:
    """Close the lakes that filesystems have opened in this process; the next use reopens them.

    A shared lake is no longer used by them, but stays open.
    """
    with _open.lock:
        opened = [lake for name, lake in _open.lakes.items() if name not in _open.lent]
        _open.lakes.clear()
        _open.lent.clear()
    for lake in opened:
        lake.close()


def _in_child() -> None:
    global _open  # noqa: PLW0603 - the lock may have been held by a thread that a fork does not copy
    abandon(_open)
    _open = _Open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(close_lakes)
