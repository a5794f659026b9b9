"""Turns: callers that request one turn get it in the order of their requests."""

import errno
import fcntl
import os
import struct
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import TIMEOUT_MAX, Lock
from time import monotonic
from typing import Final
from zlib import crc32

from graveler.clock import Clock
from graveler.privacy import PRIVATE_FILE
from graveler.process import watch

_SLOTS: Final = 2**16
_SHORTEST_PAUSE: Final = 0.0003
_LONGEST_PAUSE: Final = 0.005
_PAUSE_EACH: Final = 0.001  # for each one ahead but the first
_COUNTER: Final = struct.Struct("<Q")
_TICKETS: Final = 2**40  # bytes for the tickets of a slot, beyond the end of the file
_MOST: Final = 1 << 62
_LOCK: Final = struct.Struct("hhqqi0q")  # struct flock of 64-bit Linux
_KNOWN: Final = sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")


class _Lines:
    """The waiting threads by name; the first of each line has the turn."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.by_name: dict[str, deque[Lock]] = {}

    def join(self, name: str) -> Lock:
        """Return a ticket: a lock that is released when it is called up."""
        ticket = Lock()
        with self.lock:
            line = self.by_name.setdefault(name, deque())
            line.append(ticket)
            if line[0] is not ticket:
                ticket.acquire()
        return ticket

    def called_up(self, name: str, ticket: Lock) -> bool:
        with self.lock:
            return self.by_name[name][0] is ticket

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

        A thread that already holds the turn would wait for itself: it, too, runs without it.
        """
        lines = self._lines
        ticket = lines.join(name)
        try:
            ticket.acquire(timeout=min(max(patience, 0), TIMEOUT_MAX))
            had = lines.called_up(name, ticket)
            if not had:
                lines.leave(name, ticket)
            yield had
        finally:
            if lines is self._lines:  # else this is a fork, and the line is the parent's
                lines.leave(name, ticket)

    def after_fork_in_child(self) -> None:
        """Start with no lines: the waiting threads are those of the parent."""
        self._lines = _Lines()


class _Queue:
    """A slot of a file: the number of its next ticket, and a locked byte for each one in use.

    The locks are those of the open file, not of the process: threads and stores of one process
    do not share them, and the kernel gives them back when the file is closed for the last time.
    """

    def __init__(self, path: Path, slot: int) -> None:
        self._counter = slot * _COUNTER.size
        self._first = (slot + 1) * _TICKETS
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)

    def close(self) -> None:
        with suppress(OSError):
            # A forked child may have a copy of the file: closing it would not release the locks.
            self._set(fcntl.F_UNLCK, 0, 0)
        self.forget()

    def forget(self) -> None:
        """Close a copy that a fork made, which leaves the locks to the parent."""
        os.close(self._file)

    def draw(self) -> int | None:
        """Return the next number, or None while another thread draws one."""
        if not self._set(fcntl.F_WRLCK, self._counter, 1):
            return None
        content = os.pread(self._file, _COUNTER.size, self._counter)
        ticket: int = _COUNTER.unpack(content)[0] if len(content) == _COUNTER.size else 0
        if ticket > _MOST:  # damaged: starting again at 0 only breaks the order
            ticket = 0
        os.pwrite(self._file, _COUNTER.pack(ticket + 1), self._counter)
        self._set(fcntl.F_WRLCK, self._first + ticket, 1)
        self._set(fcntl.F_UNLCK, self._counter, 1)
        return ticket

    def ahead(self, ticket: int) -> int:
        """Return how many may still be ahead; 0: it is the turn of this ticket."""
        if ticket == 0:
            return 0
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, self._first, ticket, 0)
        kind, _, start, *_ = _LOCK.unpack(fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, asked))
        # Linux returns the oldest lock. Another one would only make pauses too short.
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

    Each process sends one thread at a time, which draws a number and checks how many are ahead:
    seldom while there are many, often when it is next. So the turn changes hands at once, and a
    long queue costs little. The numbers of a dead process are skipped.

    Args:
        path: The file whose bytes are locked; created when it is first needed, and never removed.
        clock: Where pauses come from.
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

        Goes without, too, where the file cannot be written or locked, or the system is none that
        is known to have such locks: Linux has them. Names share a slot once in 65,536 times, and
        then wait for each other.
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
        """Close the copies of the parent's files, which would outlive its death."""
        for queue in self._queues:
            queue.forget()
        self._queues = set()

    def _stand_in(self, slot: int, deadline: float) -> _Queue | None:
        """Return the queue when its turn has come, or None when the patience is over."""
        queue = None
        called = False
        try:
            queue = _Queue(self._path, slot)
            self._queues.add(queue)
            called = self._wait(queue, deadline)
        except OSError:
            pass  # a turn is a favour: what the disk does not allow is done without
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
        if queue in self._queues:  # else this is a fork, and has closed it
            self._queues.discard(queue)
            queue.close()
