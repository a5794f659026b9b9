"""Files and folders for this user alone, whatever the umask allows."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["PRIVATE_FILE", "PRIVATE_FOLDER", "create_file", "make_folder"]

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
