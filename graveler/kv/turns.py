"""Turns: callers get a turn in the order of their requests.

There are three kinds: of the threads of a process, of the processes of a host by locks of a file,
and of all processes that use a store by queues in it. A queue is one record with the tickets of
those who wait. A ticket that stays first for five seconds by the clock of one that waits is
removed, and one that waits in vain removes all before its own.
"""

import errno
import fcntl
import os
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import TIMEOUT_MAX, Lock
from time import monotonic
from typing import Any
from zlib import crc32

from graveler.base.clock import Clock, IdSource
from graveler.base.forks import watch
from graveler.base.privacy import open_file
from graveler.errors import GravelerError
from graveler.kv.record_store import ABSENT_VERSION, RecordStore, Version
from graveler.kv.store import KVStore

_SLOTS = 2**16
_SHORTEST_PAUSE = 0.0003
_LONGEST_PAUSE = 0.005
_PAUSE_EACH = 0.001  # for each ticket ahead except the first
_COUNTER = struct.Struct("<Q")
_TICKETS = 2**40  # bytes for the tickets of a slot, beyond the end of the file
_MOST = 1 << 62
_LOCK = struct.Struct("hhqqi0q")  # struct flock of 64-bit Linux
_KNOWN = sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")


class _Lines:
    """The queues of waiting threads by name. The first thread of each queue has the turn."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.by_name: dict[str, deque[Lock]] = {}

    def join(self, name: str) -> Lock:
        """Return a ticket: a lock that is released when the thread's turn comes."""
        ticket = Lock()
        with self.lock:
            line = self.by_name.setdefault(name, deque())
            line.append(ticket)
            if line[0] is not ticket:
                ticket.acquire()
        return ticket

    def leave(self, name: str, ticket: Lock) -> None:
        with self.lock:
            line = self.by_name.get(name, deque())
            if ticket not in line:
                return
            first = line[0] is ticket
            line.remove(ticket)
            if not line:
                del self.by_name[name]
            elif first:
                line[0].release()


class Turns:
    """Turns of the threads of one process, granted exactly in the order of requests."""

    def __init__(self) -> None:
        self._lines = _Lines()
        watch(self)

    @contextmanager
    def take(self, name: str, patience: float) -> Iterator[bool]:
        """Hold the turn at `name` during the block, or run without it after `patience` seconds.

        A thread that already holds the turn would wait for itself. Its block runs without the turn.
        """
        lines = self._lines
        ticket = lines.join(name)
        try:
            ticket.acquire(timeout=min(max(patience, 0), TIMEOUT_MAX))
            with lines.lock:
                had = lines.by_name[name][0] is ticket
            if not had:
                lines.leave(name, ticket)
            yield had
        finally:
            if lines is self._lines:  # in a forked child the queue is the parent's
                lines.leave(name, ticket)

    def after_fork_in_child(self) -> None:
        """Start with empty queues: the waiting threads are those of the parent."""
        self._lines = _Lines()


class _Queue:
    """A slot of a file: the number of its next ticket, and a locked byte for each ticket in use.

    The locks belong to the open file, not to the process. Threads and stores of one process do not
    share them. The kernel releases them when the last copy of the file is closed.
    """

    def __init__(self, path: Path, slot: int) -> None:
        self._counter = slot * _COUNTER.size
        self._first = (slot + 1) * _TICKETS
        self._file = open_file(path)

    def close(self) -> None:
        with suppress(OSError):
            # a forked child may have a copy of the file: closing would not release the locks
            self._set(fcntl.F_UNLCK, 0, 0)
        self.forget()

    def forget(self) -> None:
        """Close a copy in a forked child. The parent keeps the locks."""
        os.close(self._file)

    def draw(self) -> int | None:
        """Return the next number, or None while another thread draws one."""
        if not self._set(fcntl.F_WRLCK, self._counter, 1):
            return None
        content = os.pread(self._file, _COUNTER.size, self._counter)
        ticket: int = _COUNTER.unpack(content)[0] if len(content) == _COUNTER.size else 0
        if ticket > _MOST:  # damaged file: starting again at 0 only breaks the order
            ticket = 0
        os.pwrite(self._file, _COUNTER.pack(ticket + 1), self._counter)
        self._set(fcntl.F_WRLCK, self._first + ticket, 1)
        self._set(fcntl.F_UNLCK, self._counter, 1)
        return ticket

    def ahead(self, ticket: int) -> int:
        """Return how many tickets may be ahead. 0 means that it is the turn of this ticket."""
        if ticket == 0:
            return 0
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, self._first, ticket, 0)
        kind, _, start, *_ = _LOCK.unpack(fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, asked))
        # Linux returns the oldest lock. Another lock would only make pauses too short.
        return 0 if kind == fcntl.F_UNLCK else self._first + ticket - int(start)

    def _set(self, kind: int, start: int, length: int) -> bool:
        asked = _LOCK.pack(kind, os.SEEK_SET, start, length, 0)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, asked)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                return False
            raise
        return True


class FileTurns:
    """Turns of the threads of the processes of one host, granted in the order of requests.

    In each process, one thread at a time draws a number and checks how many tickets are ahead. It
    checks seldom while there are many, and often when it is next. So the next ticket gets the turn
    at once, and a long queue costs little. The numbers of a dead process are skipped.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._threads = Turns()
        self._queues: set[_Queue] = set()
        watch(self)

    @contextmanager
    def take(self, name: str, patience: float) -> Iterator[bool]:
        """Hold the turn at `name` during the block, or run without it after `patience` seconds.

        The block also runs without the turn if the file cannot be written or locked, or on a system
        other than Linux, which has such locks. Two names share a slot with a probability of 1 in
        65,536. They then wait for each other.
        """
        deadline = monotonic() + patience
        slot = crc32(name.encode()) % _SLOTS
        with self._threads.take(str(slot), patience) as first:
            queue = self._stand_in(slot, deadline) if first and _KNOWN else None
            try:
                yield queue is not None
            finally:
                self._leave(queue)

    def after_fork_in_child(self) -> None:
        """Close the copies of the parent's files, which would keep its locks after its death."""
        for queue in self._queues:
            queue.forget()
        self._queues = set()

    def _stand_in(self, slot: int, deadline: float) -> _Queue | None:
        """Wait for the turn. Return the queue, or None after the deadline."""
        queue = None
        called = False
        try:
            queue = _Queue(self._path, slot)
            self._queues.add(queue)
            called = self._wait(queue, deadline)
        except OSError:
            pass  # turns are optional: without the file the block runs without the turn
        finally:
            if not called:
                self._leave(queue)
        return queue if called else None

    def _wait(self, queue: _Queue, deadline: float) -> bool:
        while (ticket := queue.draw()) is None:
            if monotonic() >= deadline:
                return False
            self._clock.sleep(_SHORTEST_PAUSE)
        while ahead := queue.ahead(ticket):
            if monotonic() >= deadline:
                return False
            self._clock.sleep(min(_SHORTEST_PAUSE + _PAUSE_EACH * (ahead - 1), _LONGEST_PAUSE))
        return True

    def _leave(self, queue: _Queue | None) -> None:
        if queue in self._queues:  # in a forked child it is closed already
            self._queues.discard(queue)
            queue.close()


PARTITION = "turns"
_LONGEST_S = 5.0
_QUEUE_PAUSE_S = 0.005  # for each ticket ahead
_LONGEST_QUEUE_PAUSE_S = 0.05
_WITHOUT_S = 60.0
_OVER = 0.9  # of the patience, which is the same for all that wait at a name

Queue = tuple[str, ...]


class _Queues(RecordStore[Any]):
    """The queues of one store, by the hashes of their names, which may be long."""

    def key(self, name: str | bytes) -> bytes:
        return sha256(super().key(name)).hexdigest().encode()


class QueueTurns:
    """Turns of the threads of all processes that use a store, roughly in the order of requests.

    In each process, one thread at a time requests a name from the store. A turn that no other
    process wants costs two round trips. After a request that timed out, the process takes no turns at this
    name for a minute.
    """

    def __init__(self, store: KVStore, clock: Clock, ids: IdSource) -> None:
        self._queues = _Queues(store, PARTITION, encode=_encoded, decode=_decoded)
        self._clock = clock
        self._ids = ids
        self._threads = Turns()
        self._without: dict[str, float] = {}

    @contextmanager
    def take(self, name: str, patience: float) -> Iterator[bool]:
        """Hold the turn at `name` during the block, or run it without after `patience` seconds.

        The block also runs without the turn if the store does not answer.
        """
        deadline = monotonic() + patience
        ticket, process, joined = self._ids.unique(), os.getpid(), None
        with self._threads.take(name, patience) as first:
            if first and self._without.get(name, 0.0) <= monotonic():
                with suppress(GravelerError):  # turns are optional
                    joined = self._join(name, ticket, deadline, patience)
            try:
                yield joined is not None
            finally:
                if joined is not None and os.getpid() == process:  # the parent of a fork leaves
                    with suppress(GravelerError):  # the ticket is removed when others wait for it
                        self._leave(name, ticket, joined)

    def _join(
        self, name: str, ticket: str, deadline: float, patience: float
    ) -> Version[Queue] | None:
        """Wait for the turn. Return the queue, or None after the deadline."""
        begun = monotonic()
        version = self._change(name, lambda queue: (*queue, ticket), known=ABSENT_VERSION)
        queue, since = version.record, monotonic()
        while queue[:1] != (ticket,):
            now = monotonic()
            if ticket not in queue or now >= deadline:
                self._without[name] = now + _WITHOUT_S
                if now - begun > _OVER * patience:  # who asked earlier has given up, or is gone
                    version = self._change(name, lambda there: _from(there, ticket))
                self._leave(name, ticket, version)
                return None
            if now - since > _LONGEST_S:
                gone = queue[0]
                version = self._change(name, lambda there: _less(there, gone))  # noqa: B023 - called at once
            else:
                ahead = queue.index(ticket)
                self._clock.sleep(min(_QUEUE_PAUSE_S * ahead, _LONGEST_QUEUE_PAUSE_S))
                version = self._queues.find(name) or ABSENT_VERSION
            before, queue = queue, version.record or ()
            since = since if queue[:1] == before[:1] else now
        return version

    def _leave(self, name: str, ticket: str, joined: Version[Queue]) -> None:
        mine = (ticket,)
        while not (joined.record == mine and self._queues.remove(name, joined.predicate)):
            joined = self._change(
                name, lambda there: there if there == mine else _less(there, ticket)
            )
            if ticket not in (joined.record or ()):
                return

    def _change(
        self, name: str, change: Callable[[Queue], Queue], known: Version[Queue] | None = None
    ) -> Version[Queue]:
        return self._queues.updated(
            name,
            lambda queue: change(queue or ()) or queue,  # an empty queue is removed, not written
            what=f"turn {name!r}",
            clock=self._clock,
            ids=self._ids,
            known=known,
        )


def _less(queue: Queue, ticket: str) -> Queue:
    return tuple(one for one in queue if one != ticket)


def _from(queue: Queue, ticket: str) -> Queue:
    return queue[queue.index(ticket) :] if ticket in queue else queue


def _encoded(queue: Queue) -> bytes:
    return " ".join(queue).encode()


def _decoded(raw: bytes) -> Queue:
    return tuple(raw.decode().split())
