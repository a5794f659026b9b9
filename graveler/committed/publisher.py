"""Putting finished range files into the object store, several at a time.

Putting a file waits for a network or a disk, so a tree of many ranges is put by a few
threads while the next range is written, as many as the store says serve it best. One range
alone, as of a small commit, is put by the caller: a thread would only cost time. So is each
range where the store is a local disk: a second busy thread would keep those who write beside
a great commit from a core, and gain little.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from graveler.committed.range_store import RangeStore
from graveler.committed.table_check import TableKind
from graveler.committed.table_file import TableFile

__all__ = ["Publisher"]

_WAITING_EACH: Final = 2


class Publisher:
    """Publishes the range files of one writer.

    Once a file could not be put, every later call but `abort` raises the same error.

    Args:
        store: Where to.
        hold: Publish nothing before `finish`.
    """

    def __init__(self, store: RangeStore, *, hold: bool) -> None:
        self._store = store
        self._hold = hold
        self._workers = store.objects.put_threads
        self._kept: list[tuple[bytes, TableFile, bytes]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def add(self, identifier: bytes, file: TableFile, record_ids: bytes) -> None:
        """Take over a finished file; raises what putting an earlier one raised."""
        self._kept.append((identifier, file, record_ids))
        if not self._hold and len(self._kept) + len(self._waiting) > 1:
            self._submit()

    def finish(self) -> None:
        """Return when everything is in the store; raises the first error there was."""
        if self._pool is None and len(self._kept) == 1:
            self._put(*self._kept[0])
            self._kept.clear()
        self._submit()
        while self._waiting:
            self._settle_first()

    def abort(self) -> None:
        """Forget what is not yet in the store, and wait for what is on its way."""
        self._kept.clear()
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _submit(self) -> None:
        if self._kept and self._pool is None and self._workers:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="graveler-put")
        done = 0
        try:
            for item in self._kept:
                if self._pool is None:
                    self._put(*item)
                else:
                    if len(self._waiting) >= _WAITING_EACH * self._workers:
                        self._settle_first()
                    self._waiting.append(self._pool.submit(self._put, *item))
                done += 1
        finally:
            del self._kept[:done]  # what could not be put stays, for whoever asks again

    def _settle_first(self) -> None:
        self._waiting[0].result()  # one that failed stays, for whoever asks again
        self._waiting.popleft()

    def _put(self, identifier: bytes, file: TableFile, record_ids: bytes) -> None:
        self._store.publish(TableKind.RANGE, identifier, file, record_ids)
        file.close()
