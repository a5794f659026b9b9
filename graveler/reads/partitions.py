"""The ``key=value`` folders of the paths of a table's files."""

from functools import lru_cache
from typing import Final
from urllib.parse import unquote

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value of a partition of nulls, in a path."""


def value_folders(relative: str) -> tuple[str, ...]:
    """Return the ``key=value`` folders of a file's path below its table's, outermost first."""
    folders: list[str] = []
    for part in reversed(relative.split("/")[:-1]):
        if "=" not in part:
            break
        folders.insert(0, part)
    return tuple(folders)


def folder_values(relative: str) -> tuple[tuple[str, str | None], ...]:
    """Return the columns in a file's ``key=value`` folders, each with its value."""
    return _values_in(relative.rpartition("/")[0])


@lru_cache(1 << 12)  # a folder has many files
def _values_in(folder: str) -> tuple[tuple[str, str | None], ...]:
    pairs = (part.split("=", 1) for part in value_folders(f"{folder}/"))
    return tuple(
        (unquote(name), None if value == NULL_PARTITION else unquote(value))
        for name, value in pairs
    )
