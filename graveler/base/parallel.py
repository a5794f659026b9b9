"""Work on many items with threads, in order, with a bound on the pending work.

The caller's thread takes the items and yields the results. So an iterable of items may use objects
of that thread, and the order of the results never depends on the threads.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from threading import Event
from typing import Generic, TypeVar

from graveler.base.arguments import count
from graveler.base.background import Threads
from graveler.errors import InvalidInputError

BUDGET = 256 << 20
"""The maximum cost of all pending work, in bytes of memory: 256 MiB."""

MOST_THREADS = 64
"""The maximum number of threads of a call. A driver keeps as many connections open."""

_THREADS = 32
_QUEUED = 2
_T = TypeVar("_T")
_R = TypeVar("_R")


def thread_count(given: int | None, put_threads: int) -> int:
    """Return the number of threads that transfer many files.

    Args:
        put_threads: The store's `put_threads`. It is 0 if a request costs less than a thread.
    """
    if given is None:
        return _THREADS if put_threads else 1
    if count(given, "threads", least=1) > MOST_THREADS:
        raise InvalidInputError(f"threads={given}: give a number from 1 to {MOST_THREADS}")
    return given


@dataclass(frozen=True, slots=True)
class Bounds(Generic[_T]):
    """The bounds of pending work.

    Attributes:
        threads: The number of threads. With 1, the caller's thread works item by item.
        budget: The maximum cost of all pending items. A single item may cost more.
        keeps: Whether a result costs as much as its item until the caller gets it.
        over: An event that is set when the iteration ends, also by an error. Long work checks it.
    """

    threads: int
    window: int
    cost: Callable[[_T], int]
    budget: int = BUDGET
    keeps: bool = False
    over: Event = field(default_factory=Event)


class _Queue(Generic[_T, _R]):
    """The taken items in their order, and the threads that work on them."""

    def __init__(self, work: Callable[[_T], _R], bounds: Bounds[_T], pool: Threads) -> None:
        self._work = work
        self._bounds = bounds
        self._pool = pool
        self._queued: deque[tuple[int, Future[_R]]] = deque()
        self._pending: dict[Future[_R], int] = {}
        self._load = 0

    def has_room(self, cost: int) -> bool:
        """Return whether one more item may be taken."""
        bounds = self._bounds
        if len(self._queued) >= bounds.window:
            return False
        if len(self._pending) >= _QUEUED * bounds.threads:
            return False
        return not self._load or self._load + cost <= bounds.budget

    def add(self, item: _T, cost: int) -> None:
        """Give an item to a thread."""
        future = self._pool.submit(self._work, item)
        self._queued.append((cost, future))
        self._pending[future] = cost
        self._load += cost

    def ready(self) -> Iterator[_R]:
        """Yield the available results, up to the first pending item."""
        self._settle()
        while self._queued and self._queued[0][1].done():
            yield self._first()

    def step(self) -> Iterator[_R]:
        """Wait until any item is done, and yield the available results."""
        if self._pending and not self._queued[0][1].done():
            wait(self._pending, return_when=FIRST_COMPLETED)
        yield from self.ready()

    def rest(self) -> Iterator[_R]:
        """Yield all results."""
        while self._queued:
            yield self._first()

    def _first(self) -> _R:
        cost, future = self._queued.popleft()
        if self._bounds.keeps:
            self._load -= cost
        return future.result()

    def _settle(self) -> None:
        for future in [future for future in self._pending if future.done()]:
            cost = self._pending.pop(future)
            if not self._bounds.keeps:
                self._load -= cost


def in_order(
    work: Callable[[_T], _R], items: Iterable[_T], bounds: Bounds[_T]
) -> Generator[_R, None, None]:
    """Yield the result of `work` for each item, in the order of the items.

    An error of `work` is raised in place of its result. An error of the iterable is raised after
    the results of the earlier items. Work that has not begun when the iteration ends never begins.
    """
    if bounds.threads <= 1:
        try:
            yield from map(work, items)
        finally:
            bounds.over.set()
        return
    pool = Threads(bounds.threads, thread_name_prefix="graveler-files")
    try:
        queue = _Queue(work, bounds, pool)
        source, broken = iter(items), None
        while True:
            try:
                item = next(source)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - raised after the results
                broken = error
                break
            cost = bounds.cost(item)
            while not queue.has_room(cost):
                yield from queue.step()
            queue.add(item, cost)
            yield from queue.ready()
        yield from queue.rest()
        if broken is not None:
            raise broken
    finally:
        bounds.over.set()
        pool.shutdown(wait=True, cancel_futures=True)
