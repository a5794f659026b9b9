"""Amortised reads: who asks for one key at the same time shares one look at the store.

A look is shared only by those who asked before it began, so each sees what a look of its
own could have seen. The first to ask never waits: it looks at once. Those who come while it
looks wait for it to end, and the first of them then looks for all of them.
"""

from collections.abc import Callable, Hashable
from threading import Event, RLock, get_ident
from typing import Final, Generic, TypeVar

from graveler.fork import watch

__all__ = ["SharedReads"]

_PATIENCE_S: Final = 1.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Look(Generic[V]):
    """One look at the store, by one thread for all that joined before it began."""

    __slots__ = ("done", "error", "next", "thread", "value")

    def __init__(self) -> None:
        self.done = Event()
        self.error: BaseException | None = None
        self.next: _Look[V] | None = None
        self.thread = get_ident()
        self.value: V


class SharedReads(Generic[K, V]):
    """Shares the reads of threads that ask for one key at the same time.

    Nobody waits for ever: who has waited a second for a look that another thread owes him, or
    whose own thread owes it (a signal handler above an interrupted read), reads for himself.
    """

    def __init__(self, read: Callable[[K], V]) -> None:
        self._read = read
        self._under_way: dict[K, _Look[V]] = {}
        self._lock = RLock()
        watch(self)

    def get(self, key: K) -> V:
        """Return ``read(key)`` of a read that began after this call did.

        An error of a shared read is raised in all who share it; where the thread that read
        was interrupted, the others read again.
        """
        joined = mine = _Look[V]()
        with self._lock:
            before = self._under_way.setdefault(key, mine)
            if before is not mine:
                if mine.thread in {before.thread, before.next and before.next.thread}:
                    return self._read(key)
                before.next = joined = before.next or mine
        if before is mine:
            return self._look(key, mine)
        if joined is mine:
            return self._look_after(key, mine, before)
        if not joined.done.wait(_PATIENCE_S):
            return self._read(key)
        if joined.error is None:
            return joined.value
        if isinstance(joined.error, Exception):
            raise joined.error
        return self.get(key)

    def after_fork_in_child(self) -> None:
        """Forget the looks of the parent's threads, which a fork does not copy."""
        self._under_way = {}
        self._lock = RLock()

    def _look_after(self, key: K, mine: "_Look[V]", before: "_Look[V]") -> V:
        try:
            if not before.done.wait(_PATIENCE_S):
                with self._lock:  # its thread may be gone: those who ask from now on join us
                    if self._under_way.get(key) is before:
                        self._under_way[key] = mine
        except BaseException as error:
            mine.error = error
            self._end(key, mine, before)
            raise
        return self._look(key, mine)

    def _look(self, key: K, mine: "_Look[V]") -> V:
        try:
            mine.value = self._read(key)
        except BaseException as error:
            mine.error = error
            raise
        else:
            return mine.value
        finally:
            self._end(key, mine, None)

    def _end(self, key: K, mine: "_Look[V]", before: "_Look[V] | None") -> None:
        with self._lock:
            if self._under_way.get(key) is mine:
                if mine.next is None:
                    del self._under_way[key]
                else:
                    self._under_way[key] = mine.next
            elif before is not None and before.next is mine:
                before.next = None  # interrupted while it waited for its turn
        mine.done.set()
