"""Workers of a server: its trash list, its pull list, and the emptier of the trash.

A server works on the newest list of each kind, in order, and forgets it when it ends. A list is
never needed: the data manager makes another one from what it finds.
"""

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any, Generic, NamedTuple, TypeVar

from graveler.base.background import Threads
from graveler.errors import GravelerError, ObjectNotFoundError
from graveler.keep.locators import BLOCK_BYTES, Locator
from graveler.keep.store import BlockStore
from graveler.keep.volumes.volume import Trashed

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TrashItem:
    """A block of which copies are to be trashed.

    Attributes:
        mtime_ns: The time that a copy must have; None for any.
        volume: The volume that is meant; None for all.
    """

    digest: str
    mtime_ns: int | None = None
    volume: str | None = None


@dataclass(frozen=True, slots=True)
class PullItem:
    """A block that is to be fetched from the first of these servers that has it.

    Attributes:
        volume: The volume that it goes to; None for the first that can take it.
    """

    locator: Locator
    servers: tuple[str, ...]
    volume: str | None = None


class Receipt(NamedTuple):
    """What has become of the newest list.

    Attributes:
        items: The number of its items.
        left: How many items are not worked on yet.
        done: How many copies were trashed, or blocks pulled.
        skipped: How many were not, by the reason.
    """

    items: int
    left: int
    done: int
    skipped: Mapping[str, int]


class _List(Generic[_T]):
    """A list that is being worked on."""

    def __init__(self, items: Iterable[_T]) -> None:
        self.items = list(items)
        self.left = len(self.items)
        self.outcomes: Counter[str] = Counter()


class _Worker(ABC, Generic[_T]):
    """A thread that works on the newest list."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = Threads(1, f"graveler-keep-{name}")
        self._lock = Lock()
        self._newest: _List[_T] = _List(())
        self._future: Future[None] | None = None

    def wait(self) -> None:
        """Return when the newest list has ended."""
        if self._future is not None:
            self._future.result()

    def receipt(self) -> Receipt:
        """Return what has become of the newest list so far."""
        with self._lock:
            newest = self._newest
            skipped = {reason: count for reason, count in newest.outcomes.items() if count}
            done = skipped.pop(str(Trashed.DONE), 0)
            return Receipt(len(newest.items), newest.left, done, skipped)

    def close(self) -> None:
        """End the list after the current item."""
        self._begin(())
        self._thread.shutdown(wait=True)

    def _begin(self, items: Iterable[_T]) -> None:
        with self._lock:
            self._newest = _List(items)
            self._future = self._thread.submit(self._run, self._newest)

    def _run(self, current: _List[_T]) -> None:
        for item in current.items:
            if current is not self._newest:
                return
            try:
                outcomes = self._work(item)
            except (GravelerError, OSError) as error:
                outcomes = Counter([_reason(error)])
                _log.warning("%s list: %s: %s", self._name, item, error)
            with self._lock:
                current.outcomes += outcomes
                current.left -= 1

    @abstractmethod
    def _work(self, item: _T) -> Counter[str]:
        """Return what became of an item, by the reason."""


class TrashList(_Worker[tuple[TrashItem, float | None]]):
    """Trashes the copies that the newest list names. Those younger than the time to live stay."""

    def __init__(self, store: BlockStore) -> None:
        super().__init__("trash")
        self._store = store

    def replace(self, items: Iterable[TrashItem], expires: float | None = None) -> None:
        """Work on another list from now on.

        Args:
            expires: When the list ends, in seconds since 1970; items behind are skipped then.
        """
        self._begin((item, expires) for item in items)

    def _work(self, item: tuple[TrashItem, float | None]) -> Counter[str]:
        wanted, expires = item
        if expires is not None and self._store.clock.now().timestamp() >= expires:
            return Counter(["expired"])
        found = self._store.trash(wanted.digest, wanted.mtime_ns, wanted.volume or "")
        return found or Counter(["missing"])


class PullList(_Worker[PullItem]):
    """Fetches the blocks that the newest list names.

    Args:
        fetch: Returns the bytes of a block of a server, or raises.
    """

    def __init__(self, store: BlockStore, fetch: Callable[[Locator, str], bytes]) -> None:
        super().__init__("pull")
        self._store = store
        self._fetch = fetch

    def replace(self, items: Iterable[PullItem]) -> None:
        """Work on another list from now on."""
        self._begin(items)

    def _work(self, item: PullItem) -> Counter[str]:
        reasons: Counter[str] = Counter()
        size = BLOCK_BYTES if item.locator.size is None else item.locator.size
        with self._store.buffers.reserve(min(size, BLOCK_BYTES), patient=True):
            for server in item.servers:
                try:
                    content = self._fetch(item.locator, server)
                    self._store.write(item.locator, content, item.volume or "")
                except (GravelerError, OSError) as error:
                    reasons[_reason(error)] = 1
                    _log.warning("pull of %s from %s: %s", item.locator.digest, server, error)
                else:
                    return Counter([str(Trashed.DONE)])
        return reasons or Counter(["no-server"])


class Emptier:
    """Deletes the trashed copies whose life is over, again and again.

    Args:
        every: The seconds between two times; 0 never begins by itself.
        low: The share of a disk that must be free, or its trash is deleted; 1 always deletes.
    """

    def __init__(self, store: BlockStore, every: float, low: float = 1.0) -> None:
        self._store = store
        self._every = every
        self._low = low
        self._thread = Thread(target=self._run, name="graveler-keep-empty", daemon=True)
        self._end = Event()

    def start(self) -> None:
        """Begin. The first time is after one interval."""
        if self._every > 0:
            self._thread.start()

    def empty(self) -> dict[str, int]:
        """Return how many copies were deleted on each volume that may trash and needs the space."""
        deleted = {}
        for uuid, volume in self._store.volumes.items():
            try:
                space = volume.space()
                if volume.may_trash and space.free <= self._low * space.total:
                    deleted[uuid] = volume.empty()
            except GravelerError as error:
                _log.warning("the trash of volume %s was not emptied: %s", uuid, error)
        return deleted

    def close(self) -> None:
        """End after the current volume."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._every):
            self.empty()


def _reason(error: Any) -> str:
    if isinstance(error, ObjectNotFoundError):
        return "missing"
    return error.code.value if isinstance(error, GravelerError) else "unreachable"
