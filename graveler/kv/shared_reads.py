"""Shared reads: threads that ask for one key at the same time share one read of the store.

A read is shared only by threads that asked before it began, so each sees what a read of its own
could have seen. The first thread never waits: it reads at once. Threads that come during that
read wait for its end, and the first of them then reads for all of them.
"""

from collections.abc import Callable, Hashable
from threading import Event, RLock, get_ident
from typing import Final, Generic, TypeVar

from graveler.process import watch

_PATIENCE_S: Final = 1.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Read(Generic[V]):
    """One read of the store, by one thread for all that joined before it began."""

    __slots__ = ("done", "error", "next", "thread", "value")

    def __init__(self) -> None:
        self.done = Event()
        self.error: BaseException | None = None
        self.next: _Read[V] | None = None
        self.thread = get_ident()
        self.value: V


class SharedReads(Generic[K, V]):
    """Shares the reads of threads that ask for one key at the same time.

    No thread waits for more than a second: it then reads by itself. It does so at once if its own
    thread is the one that must read (a signal handler above an interrupted read).
    """

    def __init__(self, read: Callable[[K], V]) -> None:
        self._read = read
        self._under_way: dict[K, _Read[V]] = {}
        self._lock = RLock()
        watch(self)

    def get(self, key: K) -> V:
        """Return ``read(key)`` of a read that began after this call did.

        An error of a shared read is raised in every thread that shares it; if the reading thread
        was interrupted, the others read again.
        """
        joined = mine = _Read[V]()
        with self._lock:
            before = self._under_way.setdefault(key, mine)
            if before is not mine:
                if mine.thread in {before.thread, before.next and before.next.thread}:
                    return self._read(key)
                before.next = joined = before.next or mine
        if before is mine:
            return self._read_shared(key, mine)
        if joined is mine:
            return self._read_after(key, mine, before)
        if not joined.done.wait(_PATIENCE_S):
            return self._read(key)
        if joined.error is None:
            return joined.value
        if isinstance(joined.error, Exception):
            raise joined.error
        return self.get(key)

    def after_fork_in_child(self) -> None:
        """Drop the reads of the parent's threads, which a fork does not copy."""
        self._under_way = {}
        self._lock = RLock()

    def _read_after(self, key: K, mine: "_Read[V]", before: "_Read[V]") -> V:
        try:
            if not before.done.wait(_PATIENCE_S):
                with self._lock:  # its thread may be gone: later threads join this read
                    if self._under_way.get(key) is before:
                        self._under_way[key] = mine
        except BaseException as error:
            mine.error = error
            self._end(key, mine, before)
            raise
        return self._read_shared(key, mine)

    def _read_shared(self, key: K, mine: "_Read[V]") -> V:
        try:
            mine.value = self._read(key)
        except BaseException as error:
            mine.error = error
            raise
        else:
            return mine.value
        finally:
            self._end(key, mine, None)

    def _end(self, key: K, mine: "_Read[V]", before: "_Read[V] | None") -> None:
        with self._lock:
            if self._under_way.get(key) is mine:
                if mine.next is None:
                    del self._under_way[key]
                else:
                    self._under_way[key] = mine.next
            elif before is not None and before.next is mine:
                before.next = None  # interrupted while it waited
        mine.done.set()
