"""What others may not see: URIs without secrets, files for this user alone."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; folders that are there stay as they are."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(PRIVATE_FOLDER, exist_ok=True)


def create_file(file: Path) -> None:
    """Make an empty file where there is none; one that is there stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))


_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{0,3})?(.*)", re.DOTALL)
_LOCAL: Final = ("file", "sqlite", "rocksdb", "mem")
_HIDDEN: Final = "***"


def is_uri(text: str) -> bool:
    """Return whether a text is a URI (or a mistyped one, with one slash) and no path."""
    return _URI.match(text) is not None


def shown_uri(uri: str) -> str:
    """Return a URI for messages and logs: scheme, host and path, and no secret.

    What stands before an ``@`` and what follows a ``?`` or ``#`` may hold secrets and is hidden.
    Where it is not clear which is which, as with a password that is not percent-encoded, only
    the scheme is left. Paths of local schemes are shown whole.
    """
    scheme, rest = _PARTS.fullmatch(uri).groups(default="")  # type: ignore[union-attr]  # matches any text
    if scheme.partition(":")[0].lower() in _LOCAL:
        return uri
    place, query = re.fullmatch(r"([^?#]*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]  # matches any text
    if "@" in query:
        return scheme + _HIDDEN
    user, at, host = place.rpartition("@")
    hidden = f"{_HIDDEN}@" if user or at else ""
    return f"{scheme}{hidden}{host}" + (f"?{_HIDDEN}" if query else "")


def may_write(place: Path) -> bool:
    """Return whether a file and its folder, or a folder, can be written to.

    A missing one can be made if the nearest folder above can be written to.
    """
    there = place
    while not there.exists() and there != there.parent:
        there = there.parent
    effective = os.access in os.supports_effective_ids
    checked = (there, place.parent) if there.is_file() else (there,)
    return all(os.access(path, os.W_OK, effective_ids=effective) for path in checked)
