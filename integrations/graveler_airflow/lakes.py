"""Opening a lake that is there."""

from pathlib import Path

import graveler
from graveler.config import CONFIG_NAME
from graveler.errors import BackendUnavailableError
from graveler.lake import Lake

__all__ = ["open_lake"]


def open_lake(location: str | Path) -> Lake:
    """Open the lake at `location`, its folder or a ``graveler.toml``.

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
            f"no lake at {path} (there is no {settings.name}): is its volume mounted on this "
            f"worker? A new lake is made with `graveler init {path}`"
        )
    return graveler.open(path)
