"""Reading many files in order, with threads that read ahead."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any, Literal

from graveler.base.arguments import PathText, each, path_text
from graveler.base.names import path_key
from graveler.base.parallel import Bounds, in_order
from graveler.errors import InvalidInputError, ObjectNotFoundError, PermissionDeniedError
from graveler.model import Entry
from graveler.values import decode_entry

_AHEAD = 4
_SHOWN = 5
Missing = Literal["error", "skip"]
Find = Callable[[Sequence[bytes]], Sequence[bytes | None]]
"""Returns the value record of each key in one version of a tree, or None if it is missing."""


def entries_at(find: Find, paths: Sequence[str], origin: str = "") -> list[Entry | None]:
    """Return the entry of each path in one version of a tree, or None if it is missing."""
    keys = [path_key(path) for path in paths]
    return [
        None if value is None else decode_entry(key, value, origin)
        for key, value in zip(keys, find(keys), strict=True)
    ]


def wanted_entries(
    name: str, origin: str, find: Find, wanted: Iterable[PathText | Entry], missing: Missing
) -> Iterator[Entry]:
    """Return the entries of paths, or the given entries.

    All paths are looked up together. Entries are taken one by one.
    """
    kinds: tuple[type[Any], ...] = (str, PurePath, Entry)
    items: Iterator[PathText | Entry] = each(wanted, "paths", kinds, "paths, or entries")
    first = next(items, None)
    if first is None:
        return iter(())
    if isinstance(first, Entry):
        return map(_as_entry, chain([first], items))
    paths = [_as_path(item, at) for at, item in enumerate(chain([first], items))]
    entries = entries_at(find, paths, origin)
    gone = [path for path, entry in zip(paths, entries, strict=True) if entry is None]
    if gone and missing == "error":
        raise ObjectNotFoundError(
            f"nothing at {_some(gone)} in {name!r}; missing='skip' leaves such paths out"
        )
    return (entry for entry in entries if entry is not None)


def _as_entry(item: PathText | Entry) -> Entry:
    if not isinstance(item, Entry):
        raise InvalidInputError(f"paths: {item!r} comes after an entry: give paths, or entries")
    return item


def _as_path(item: PathText | Entry, at: int) -> str:
    if isinstance(item, Entry):
        raise InvalidInputError(
            f"paths: the entry of {item.path!r} comes after a path: give paths, or entries"
        )
    return path_text(item, f"paths[{at}]")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else shown


def read_many(
    entries: Iterable[Entry], get: Callable[[Entry], bytes], threads: int
) -> Iterator[tuple[Entry, bytes]]:
    """Yield each entry and the bytes of its file in order. Threads read ahead."""

    def read(entry: Entry) -> tuple[Entry, bytes]:
        try:
            return entry, get(entry)
        except (ObjectNotFoundError, PermissionDeniedError) as error:
            raise error.saying(f"{entry.path!r}: {error}") from error

    bounds: Bounds[Entry] = Bounds(
        threads, _AHEAD * threads, cost=lambda entry: entry.size, keeps=True
    )
    return in_order(read, entries, bounds)
