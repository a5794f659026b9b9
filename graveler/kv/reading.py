"""Reading a store that this process may not write to: one on a read-only disk, or another user's."""

import os
from pathlib import Path

__all__ = ["may_write"]


def may_write(place: Path) -> bool:
    """Return whether a file and its folder, or a folder, can be written to.

    What is not there can be made where the nearest folder above can be written to.
    """
    there = place
    while not there.exists() and there != there.parent:
        there = there.parent
    effective = os.access in os.supports_effective_ids
    checked = (there, place.parent) if there.is_file() else (there,)
    return all(os.access(path, os.W_OK, effective_ids=effective) for path in checked)
