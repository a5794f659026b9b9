"""Many paths: their entries, looked up together, and their files, which threads read ahead."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import eq
from pathlib import PurePath
from typing import Any, Literal, Self, overload

from graveler.base.arguments import PathText, each, path_text
from graveler.base.names import path_key
from graveler.base.parallel import Bounds, in_order
from graveler.errors import InvalidInputError, ObjectNotFoundError, PermissionDeniedError
from graveler.model import Entry
from graveler.values import decode_entry, deferred_entry, deferred_rows

_AHEAD = 4
_AT_ONCE = 4_096
_SHOWN = 5
Missing = Literal["error", "skip"]
Find = Callable[[Sequence[bytes]], Sequence[bytes | None]]
"""Returns the value record of each key in one version of a tree, or None if it is missing."""


class FoundEntries(Sequence[Entry | None]):
    """The entry of each key, or None if there is no entry. Each access decodes it again."""

    __slots__ = ("_keys", "_origin", "_rows")

    def __init__(self, keys: Sequence[bytes], rows: Sequence[bytes | None], origin: str) -> None:
        self._origin = origin
        self._keys = keys
        self._rows = rows

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> Entry | None: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> Entry | Self | None:
        if isinstance(place, slice):
            return type(self)(self._keys[place], self._rows[place], self._origin)
        key, row = self._keys[place], self._rows[place]
        return None if row is None else deferred_entry(key, row[len(key) :], self._origin)

    def __iter__(self) -> Iterator[Entry | None]:
        for start in range(0, len(self), _AT_ONCE):
            keys = self._keys[start : start + _AT_ONCE]
            rows = list(self._rows[start : start + _AT_ONCE])
            if None not in rows:
                yield from deferred_rows(keys, rows, self._origin)  # type: ignore[arg-type]  # no None
            else:
                yield from map(self.__getitem__, range(start, start + len(keys)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} entries>"


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
