"""Partition folders (``day=2013-01-01/``) of files that lie at many places.

Spark finds partition columns by itself below *one* folder only. A table of a lake is spread
over as many folders as it had writes, so its files are grouped: those that one write left
behind are found by Spark, with pruning by partition; those whose address does not say what
their path says get the columns as constants.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from graveler.errors import InvalidInputError

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table.

    Attributes:
        relative: Its path below the table's.
        uri: Where it is, as Spark names it.
    """

    relative: str
    uri: str

    @property
    def folders(self) -> tuple[str, ...]:
        """The ``key=value`` folders that it is in, outermost first."""
        found: list[str] = []
        for part in reversed(self.relative.split("/")[:-1]):
            if "=" not in part:
                break
            found.insert(0, part)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that one read of Spark's can take together.

    Attributes:
        uris: The files.
        base: The folder below which Spark finds the partition columns, or "".
        constants: The partition columns that all of them share, where it cannot.
    """

    uris: tuple[str, ...]
    base: str
    constants: tuple[tuple[str, str | None], ...]


def group_files(files: list[DataFile]) -> tuple[tuple[str, ...], list[FileGroup]]:
    """Return the partition columns of a table and its files in groups.

    Raises:
        InvalidInputError: The files are not all partitioned by the same columns.
    """
    columns = {tuple(name for name, _ in _values(file)): file.relative for file in files}
    if len(columns) > 1:
        seen = "; ".join(f"{list(names)} at {path!r}" for names, path in sorted(columns.items()))
        raise InvalidInputError(
            f"files are partitioned by different columns ({seen}): read one table at a time"
        )
    groups: dict[tuple[str, tuple[tuple[str, str | None], ...]], list[str]] = {}
    for file in files:
        base = _base(file)
        constants = () if base else _values(file)
        groups.setdefault((base, constants), []).append(file.uri)
    names = next(iter(columns), ())
    return names, [FileGroup(tuple(uris), *key) for key, uris in groups.items()]


def _values(file: DataFile) -> tuple[tuple[str, str | None], ...]:
    pairs = (folder.split("=", 1) for folder in file.folders)
    return tuple(
        (unquote(name), None if value == _NULL else unquote(value)) for name, value in pairs
    )


def _base(file: DataFile) -> str:
    """Return the folder below which the address has the path's folders, "" if it has not."""
    tail = "/" + "/".join(file.folders)
    folder = file.uri.rpartition("/")[0]
    return folder.removesuffix(tail) if file.folders and folder.endswith(tail) else ""
