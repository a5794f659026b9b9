"""Changes over ranges: which ranges are kept as they are, and what the others become.

The walk goes from change to change, not from range to range, so ranges that no change
touches cost a slice of a tuple however many they are.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeVar

from graveler.committed.range_store import RangeStore
from graveler.committed.range_writer import RangeWriter
from graveler.committed.table import Record
from graveler.errors import UnsortedKeysError
from graveler.model import RangeInfo

C = TypeVar("C", bound=tuple[Any, ...])
Settle = Callable[[C, Record | None], Record | None]
"""(change, record found at its key) -> record to have there; None: no record. Returning
what was found means that there is nothing to do."""

_max_key = attrgetter("max_key")


@dataclass(slots=True)
class Tally:
    """Keys that changed."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.added + self.changed + self.removed


def rewrite(
    store: RangeStore,
    writer: RangeWriter,
    base: Sequence[RangeInfo],
    changes: Iterable[C],
    settle: Settle[C],
) -> Tally:
    """Write `base` with `changes` to `writer`.

    A range is opened if a change falls between its first and last key, and written again
    if that has an effect. A key between two ranges never touches the one after it: it
    continues the writer's current range if there is one, else it starts a range.

    Args:
        store: Where `base` is opened.
        writer: Takes records and untouched ranges.
        base: Ranges in key order.
        changes: Tuples that start with their key, in key order.
        settle: Decides each.
    """
    tally = Tally()
    cursor = _Cursor(changes)
    at = 0
    while cursor.head is not None:
        key = cursor.head[0]
        following = bisect_left(base, key, at, key=_max_key)
        writer.add_ranges(base[at:following])
        at = following
        if at == len(base):
            writer.add_all(_gap(cursor.below(None), settle, tally))
        elif key < base[at].min_key:
            writer.add_all(_gap(cursor.below(base[at].min_key), settle, tally))
        else:
            _touch(store, writer, base[at], cursor, settle, tally)
            at += 1
    writer.add_ranges(base[at:])
    return tally


def _touch(
    store: RangeStore,
    writer: RangeWriter,
    info: RangeInfo,
    cursor: "_Cursor[C]",
    settle: Settle[C],
    tally: Tally,
) -> None:
    before = tally.total
    joined = _joined(
        store.open_range(info).records(), cursor.below(info.max_key + b"\0"), settle, tally
    )
    kept: list[Record] = []
    for record in joined:
        kept.append(record)
        if tally.total != before:
            break
    if tally.total == before:
        writer.add_range(info)
    else:
        writer.add_all(chain(kept, joined))


def _joined(
    records: list[Record], changes: Iterator[C], settle: Settle[C], tally: Tally
) -> Iterator[Record]:
    keys = [record[0] for record in records]
    count = len(keys)
    at = 0
    for change in changes:
        place = bisect_left(keys, change[0], at)
        yield from records[at:place]
        found = records[place] if place < count and keys[place] == change[0] else None
        at = place if found is None else place + 1
        settled = settle(change, found)
        if settled is found:
            if found is not None:
                yield found
        elif settled is None:
            tally.removed += 1
        else:
            if found is None:
                tally.added += 1
            else:
                tally.changed += 1
            yield settled
    yield from records[at:]


def _gap(changes: Iterator[C], settle: Settle[C], tally: Tally) -> Iterator[Record]:
    for change in changes:
        record = settle(change, None)
        if record is not None:
            tally.added += 1
            yield record


class _Cursor(Generic[C]):
    """Changes with a look at the next one."""

    def __init__(self, changes: Iterable[C]) -> None:
        self._rest = iter(changes)
        self.head: C | None = next(self._rest, None)

    def below(self, limit: bytes | None) -> Iterator[C]:
        """Yield the changes before key `limit` (None: all); to be read to its end."""
        head, rest = self.head, self._rest
        while head is not None and (limit is None or head[0] < limit):
            yield head
            following = next(rest, None)
            if following is not None and following[0] <= head[0]:
                raise UnsortedKeysError(
                    f"change of {following[0]!r} after {head[0]!r}: changes must come in "
                    "ascending key order, each key once"
                )
            self.head = head = following
