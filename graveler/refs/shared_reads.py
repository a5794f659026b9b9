"""Amortised reads: who asks for one key at the same time shares one look at the store.

A look is shared only by those who asked before it began, so each sees what a look of its
own could have seen. The first to ask never waits: it looks at once. Those who come while it
looks wait for it to end, and the first of them then looks for all of them.
"""

from collections.abc import Callable, Hashable
from threading import Event, Lock
from typing import Generic, TypeVar

from graveler.kv.forking import watch

__all__ = ["SharedReads"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Look(Generic[V]):
    """One look at the store, by one thread for all that joined before it began."""

    __slots__ = ("done", "error", "next", "value")

    def __init__(self) -> None:
        self.done = Event()
        self.error: BaseException | None = None
        self.next: _Look[V] | None = None
        self.value: V


class SharedReads(Generic[K, V]):
    """Shares the reads of threads that ask for one key at the same time."""

    def __init__(self, read: Callable[[K], V]) -> None:
        self._read = read
        self._under_way: dict[K, _Look[V]] = {}
        self._lock = Lock()
        watch(self)

    def get(self, key: K) -> V:
        """Return ``read(key)`` of a read that began after this call did.

        An error of a shared read is raised in all who share it; where the thread that read
        was interrupted, the others read again.
        """
        while True:
            with self._lock:
                before = self._under_way.get(key)
                if before is None:
                    mine = self._under_way[key] = _Look()
                    leads = True
                else:
                    leads = before.next is None
                    mine = before.next = before.next or _Look()
            if leads:
                return self._lead(key, mine, before)
            mine.done.wait()
            if mine.error is None:
                return mine.value
            if isinstance(mine.error, Exception):
                raise mine.error

    def after_fork_in_child(self) -> None:
        """Forget the looks of the parent's threads, which a fork does not copy."""
        self._under_way = {}
        self._lock = Lock()

    def _lead(self, key: K, mine: "_Look[V]", before: "_Look[V] | None") -> V:
        try:
            if before is not None:
                before.done.wait()
            mine.value = self._read(key)
        except BaseException as error:
            mine.error = error
            raise
        else:
            return mine.value
        finally:
            self._end(key, mine, before)
            mine.done.set()

    def _end(self, key: K, mine: "_Look[V]", before: "_Look[V] | None") -> None:
        with self._lock:
            if self._under_way.get(key) is not mine:  # interrupted while it waited for its turn
                if before is not None and before.next is mine:
                    before.next = None
            elif mine.next is None:
                del self._under_way[key]
            else:
                self._under_way[key] = mine.next
