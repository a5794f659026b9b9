"""The entries of many paths that were looked up together, decoded on access."""

from collections.abc import Iterator, Sequence
from operator import eq
from typing import Self, overload

from graveler.model import Entry
from graveler.values import deferred_entry, deferred_rows

_AT_ONCE = 4_096


class FoundEntries(Sequence[Entry | None]):
    """The entry of each key, or None if there is no entry. Each access decodes it again.

    Args:
        rows: The joined key and value record of each key, or None if there is no entry.
    """

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
