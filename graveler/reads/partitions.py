"""The files of a table: their ``key=value`` folders, the names that Spark skips, refused formats."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote

from graveler.committed.units import log_of
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.model import Entry
from graveler.reads.ports import View

Files = Sequence[tuple[str, Entry]]
"""Entries of a table, each with its path relative to the table."""

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of a partition of nulls, in a path."""
_GATEWAY = (
    "a Delta table is its log and the files that the log names. Read and write it through the gateway, as "
    "delta.`webhdfs://…/repository/branch/path`, and commit the branch; this was tried with PySpark 4.1.1 "
    "and io.delta:delta-spark_4.1_2.13:4.1.0, and on PySpark 4.3.0 that jar reads no table"
)
_REFUSED: Mapping[str, str] = {
    "delta": _GATEWAY,
    "iceberg": (
        "the metadata of an Iceberg table holds the full addresses of its files, so it is valid for the "
        "branch that it was written on, and not after a merge: keep the table as Parquet, or as a Delta table"
    ),
    "hudi": (
        "a Hudi table is its timeline and the files that the timeline names, and none was tried: keep the "
        "table as Parquet, or as a Delta table"
    ),
}
_HIDDEN = re.compile(r"(?:^|/)(?:\.(?!/|$)|_[^/=]*(?:/|$))")


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


def is_in_table(relative: str) -> bool:
    """Return whether a file is in the folder of its table or in its ``key=value`` folders."""
    *folders, _ = relative.split("/")
    return all("=" in folder for folder in folders)


def is_hidden(relative: str) -> bool:
    """Return whether Spark skips the file: ``_SUCCESS``, ``_temporary/…``, ``.part.crc``."""
    return _HIDDEN.search(relative) is not None


def partition_columns(files: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns of the files of a table."""
    columns = {tuple(name for name, _ in folder_values(file)): file for file in files}
    if len(columns) > 1:
        seen = "; ".join(f"{list(names)} at {path!r}" for names, path in sorted(columns.items()))
        raise InvalidInputError(
            f"files are partitioned by different columns ({seen}): read one table at a time"
        )
    return next(iter(columns), ())


def table_entries(view: View, path: str, *, nested: bool) -> list[tuple[str, Entry]]:
    """Return the entries of a table's files in one version, by their paths below the table.

    A path without a slash at its end names a file if there is one, else a folder.
    """
    if path and not path.endswith("/"):
        with suppress(ObjectNotFoundError):
            return [(path.rpartition("/")[2], view.stat(path))]
        path = f"{path}/"
    files: list[tuple[str, Entry]] = []
    for entry in view.entries(path):
        name = entry.path.removeprefix(path)
        if not is_hidden(name):
            if nested or is_in_table(name):
                files.append((name, entry))
        elif log_of(name.encode()) is not None:
            refuse_delta(f"{path}{name.rpartition('_delta_log/')[0]}")
    return files


def check_format(path: str, format: str) -> None:
    """Refuse a table format, in which a table is more than its files."""
    reason = _REFUSED.get(format.lower())
    if reason is not None:
        raise InvalidInputError(f"{path!r}: format {format!r}: {reason}")


def refuse_delta(folder: str) -> None:
    """Refuse to read the files of a Delta table as the table."""
    raise InvalidInputError(
        f"{folder!r} is a Delta table, and some of its files may hold rows that were replaced: {_GATEWAY}"
    )
