"""Marks: the objects that one survey of a repository condemned; key ``mark/<id>``.

The record has the state of a mark and its totals. The names of the condemned objects are on pages
in the storage of the repository until the sweep is over.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from graveler.base.clock import Clock, IdSource, from_unix_us, unix_us
from graveler.base.records import (
    ANY,
    MICROSECONDS,
    NAME,
    FieldType,
    Schema,
    array,
    decode_json,
    integer,
    mapping,
    real,
)
from graveler.errors import NotFoundError, ObjectNotFoundError, StateError
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.model import LONGEST_DURATION
from graveler.objects.store import ObjectStore
from graveler.repository.writes.borrowed import CONDEMNED

FOLDER = "_graveler/gc"
"""Folder of the files of garbage collection, by the unique id of the repository."""

PAGE = 5_000
"""Number of names on a page."""

_LONGEST = LONGEST_DURATION.total_seconds()


def store_now(objects: ObjectStore, uid: str) -> int:
    """Return the time of an object just written, by the object store's clock, in microseconds.

    This clock dates objects and measures the undelete window. It is never compared with the clock
    of this machine.
    """
    key = f"{FOLDER}/{uid}/clock"
    objects.put(key, b"what time is it?")
    return unix_us(objects.head(key).mtime)


class MarkState(StrEnum):
    """The state of a mark."""

    MARKING = "marking"
    CONDEMNED = "condemned"
    SWEEPING = "sweeping"
    SWEPT = "swept"
    LOST = "lost"
    UNDELETED = "undeleted"
    SUPERSEDED = "superseded"


WAITING = (MarkState.CONDEMNED, MarkState.SWEEPING)
"""The states of a mark whose sweep is not over."""


class Kind(StrEnum):
    """The kinds of condemned objects; the tree of a commit counts as the commit."""

    COMMITS = "commits"
    METARANGES = "metaranges"
    RANGES = "ranges"
    DATA = CONDEMNED
    STAGING = "staging"


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of objects of a kind and their size.

    Attributes:
        size: Bytes in the storage; for staging, rows.
    """

    count: int = 0
    size: int = 0

    def plus(self, size: int) -> "Tally":
        """Return the tally with one more object of that size."""
        return Tally(self.count + 1, self.size + size)


@dataclass(frozen=True, slots=True)
class Mark:
    """The objects that one survey condemned, and the result of its sweep.

    Attributes:
        created: When it was made, microseconds since 1970 by the machine's clock.
        marked: When all objects were condemned, by the store's clock; 0 until then.
        window: Seconds from then until it may be swept.
        grace: Age in seconds from which an object may be condemned.
        condemned: Condemned objects, by kind.
        unknown: Objects in the storage that are not graveler's; they are never deleted.
        tokens: Staging tokens that no branch names.
        swept: When the sweep ended, or was found to be lost, by the store's clock; 0 until then.
        freed: Deleted objects, by kind.
        spared: Condemned objects that are needed after all, by kind.
        own: Whether its pages name only data files that graveler made; false in version 0.2.
    """

    id: str
    state: MarkState
    created: int
    window: float
    grace: float
    marked: int = 0
    condemned: Mapping[Kind, Tally] = field(default_factory=dict)
    kept: Mapping[Kind, Tally] = field(default_factory=dict)
    unknown: int = 0
    unknown_keys: tuple[str, ...] = ()
    pages: Mapping[Kind, int] = field(default_factory=dict)
    tokens: tuple[str, ...] = ()
    swept: int = 0
    freed: Mapping[Kind, Tally] = field(default_factory=dict)
    spared: Mapping[Kind, Tally] = field(default_factory=dict)
    own: bool = False
    nonce: str = ""

    @property
    def made(self) -> datetime:
        """The time when it was made, by the machine's clock."""
        return from_unix_us(self.created)

    @property
    def ripe(self) -> datetime:
        """The time from which it may be swept, by the store's clock."""
        return from_unix_us(self.marked) + timedelta(seconds=self.window)

    @property
    def bytes_condemned(self) -> int:
        """Bytes in the storage that the sweep would free."""
        return _bytes(self.condemned)

    @property
    def bytes_freed(self) -> int:
        """Bytes in the storage that the sweep has freed."""
        return _bytes(self.freed)


def _bytes(tallies: Mapping[Kind, Tally]) -> int:
    stored = (Kind.METARANGES, Kind.RANGES, Kind.DATA)
    return sum(tallies[kind].size for kind in stored if kind in tallies)


def _by_kind(item: FieldType[Any]) -> FieldType[Any]:
    """Return the type of objects by kind. Kinds that this version does not know are left out."""
    items = mapping(item)

    def load(value: Any) -> Any:
        stored = mapping(ANY).load(value)
        return items.load({kind: stored[kind] for kind in Kind if kind in stored})

    return FieldType(load, items.dump)


_TALLIES = _by_kind(Schema(Tally).row())
_MARK = Schema(
    Mark,
    "record of a mark",
    types={
        "id": NAME,
        "window": real(_LONGEST),
        "grace": real(_LONGEST),
        "tokens": array(NAME),
        "pages": _by_kind(integer()),
        **dict.fromkeys(("created", "marked", "swept"), MICROSECONDS),
        **dict.fromkeys(("condemned", "kept", "freed", "spared"), _TALLIES),
    },
    added=("own",),
    states_format=True,
)


class Marks:
    """The marks of one repository."""

    def __init__(
        self, kv: KVStore, uid: str, objects: ObjectStore, *, clock: Clock, ids: IdSource
    ) -> None:
        self._records: RecordStore[Mark] = RecordStore(
            kv, f"gc:{uid}", prefix=b"mark/", encode=_MARK.encode, decode=_MARK.decode
        )
        self._folder = f"{FOLDER}/{uid}"
        self._objects = objects
        self._clock = clock
        self._ids = ids

    def create(self, *, window: float, grace: float) -> Mark:
        """Write a new mark, in the state ``marking``."""
        now = self._clock.now()
        nonce = self._ids.unique()
        mark = Mark(
            id=f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03}{nonce[-3:]}",
            state=MarkState.MARKING,
            created=unix_us(now),
            window=window,
            grace=grace,
            own=True,
            nonce=nonce,
        )
        if not self._records.write(mark.id, mark):
            raise StateError(
                f"mark {mark.id} was not written, or another mark has its id: mark again"
            )
        return mark

    def get(self, identifier: str) -> Mark:
        """Return a mark, or raise NotFoundError."""
        mark = self._records.get(identifier)
        if mark is None:
            raise _missing(identifier)
        return mark

    def list(self) -> Iterator[Mark]:
        """Yield the marks, oldest first."""
        return (mark for _, mark in self._records.scan())

    def move(
        self, identifier: str, states: tuple[MarkState, ...], change: Callable[[Mark], Mark]
    ) -> Mark:
        """Replace a mark in one of `states` by ``change(mark)``, in one atomic step."""

        def changed(mark: Mark | None) -> Mark:
            if mark is None:
                raise _missing(identifier)
            if mark.state not in states:
                raise StateError(f"mark {identifier} is {mark.state}: {_NEXT[mark.state]}")
            return replace(change(mark), nonce=self._ids.unique())

        return self._records.update(
            identifier, changed, what=f"mark {identifier}", clock=self._clock, ids=self._ids
        )

    def folder(self, mark: str) -> str:
        """Return the key prefix of the pages of a mark; kind and number follow it."""
        return f"{self._folder}/{mark}/"

    def put_page(self, mark: str, kind: Kind | str, number: int, names: Sequence[Any]) -> None:
        """Store one page of names."""
        self._objects.put(self._page(mark, kind, number), json.dumps(list(names)).encode())

    def names(self, mark: Mark, kind: Kind) -> Iterator[Any]:
        """Yield the names that a mark condemned, page after page."""
        for number in range(mark.pages.get(kind, 0)):
            try:
                page = self._objects.get(self._page(mark.id, kind, number))
            except ObjectNotFoundError as error:
                raise StateError(
                    f"mark {mark.id} is over: another sweep has finished it (`graveler gc show`)"
                ) from error
            yield from decode_json(page, f"page of mark {mark.id}")

    def is_lost(self, mark: Mark) -> bool:
        """Return whether the key-value store has lost the record of a mark's sweep.

        Pages are deleted only when a mark is over. If a page of a mark that is not over is missing,
        the mark was swept, and the key-value store was then restored from an older backup.
        """
        if mark.state not in WAITING:
            return False
        pages = sum(1 for _ in self._objects.list(f"{self._folder}/{mark.id}/"))
        return pages < sum(mark.pages.values())

    def forget_pages(self, mark: str) -> None:
        """Remove the pages of a mark that is over."""
        for info in list(self._objects.list(f"{self._folder}/{mark}/")):
            self._objects.delete(info.key)

    def _page(self, mark: str, kind: Kind | str, number: int) -> str:
        return f"{self.folder(mark)}{kind}-{number:06}"


_NEXT = {
    MarkState.MARKING: "it was not finished; mark again",
    MarkState.CONDEMNED: "sweep it when its window is over, or undelete it",
    MarkState.SWEEPING: "`graveler gc sweep` continues it",
    MarkState.SWEPT: "what it condemned is gone",
    MarkState.LOST: "what it condemned is gone, by a sweep that the key-value store does not know",
    MarkState.UNDELETED: "its condemnation was withdrawn; mark again",
    MarkState.SUPERSEDED: "another mark was begun before it was finished; mark again",
}


def _missing(identifier: str) -> NotFoundError:
    return NotFoundError(f"no mark {identifier!r}: `graveler gc list` lists the marks")
