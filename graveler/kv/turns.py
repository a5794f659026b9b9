"""Taking turns: who asks for the same thing is served in the order of asking."""

import fcntl
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import TIMEOUT_MAX, Lock
from time import monotonic
from typing import Final
from zlib import crc32

from graveler.clock import Clock
from graveler.kv.forking import watch

__all__ = ["FileTurns", "Turns"]

_FILES: Final = 64


class _Lines:
    """Who waits for what; the first of each line has the turn."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.by_name: dict[str, deque[Lock]] = {}

    def join(self, name: str) -> Lock:
        """Return a ticket: a lock that can be had when it is called up."""
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
    """Turns of the threads of one process, exactly in the order of asking."""

    def __init__(self) -> None:
        self._lines = _Lines()
        watch(self)

    @contextmanager
    def take(self, name: str, patience: float) -> Iterator[bool]:
        """Hold the turn at `name` during the block, or go without after `patience` seconds.

        A thread that has the turn already would wait for itself: it, too, goes without.
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
        """Start with no lines: those who stand in them are threads of the parent."""
        self._lines = _Lines()


class _Descriptor:
    """An open file, told from a later one of the same number."""

    def __init__(self, number: int) -> None:
        self.number = number


class FileTurns:
    """Turns of the threads of the processes of one host, by locks on files.

    Each process sends one thread a time. It first locks the door, then the room, then opens
    the door for the next: only the one at the door looks often, so the turn is handed over at
    once and a long line costs little. The kernel frees what a dead process had locked.

    Args:
        folder: Where the files lie; made when it is first needed, and never emptied.
        clock: Where pauses come from.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._threads = Turns()
        self._open: set[_Descriptor] = set()
        watch(self)

    @contextmanager
    def take(self, name: str, patience: float) -> Iterator[bool]:
        """Hold the turn at `name` during the block, or go without after `patience` seconds.

        Goes without, too, where the folder cannot be written to or its files not be locked.
        Few files serve all names: some different names wait for each other.
        """
        deadline = monotonic() + patience
        file = f"{crc32(name.encode()) % _FILES:02x}"
        with self._threads.take(file, patience) as first:
            room = self._enter(file, deadline) if first else None
            try:
                yield room is not None
            finally:
                self._leave(room)

    def after_fork_in_child(self) -> None:
        """Close the copies of the parent's files, which would outlive its death."""
        for descriptor in self._open:
            os.close(descriptor.number)
        self._open = set()

    def _enter(self, file: str, deadline: float) -> _Descriptor | None:
        door = self._lock(f"{file}.door", deadline, longest=0.003, shortest=0.001)
        if door is None:
            return None
        try:
            return self._lock(f"{file}.room", deadline, longest=0.001, shortest=0.0003)
        finally:
            self._leave(door)

    def _lock(
        self, file: str, deadline: float, *, longest: float, shortest: float
    ) -> _Descriptor | None:
        descriptor = None
        locked = False
        try:
            descriptor = self._opened(file)
            pause = longest
            while not (locked := _locked(descriptor)) and monotonic() < deadline:
                self._clock.sleep(pause)
                # Who has waited longer looks more often: about first come, first served.
                pause = max(pause * 0.9, shortest)
        except OSError:
            pass  # a turn is a favour: what the disk does not allow is done without
        finally:
            if not locked:
                self._leave(descriptor)
        return descriptor if locked else None

    def _opened(self, file: str) -> _Descriptor:
        self._folder.mkdir(exist_ok=True)
        # Opened for reading, which is enough for a lock: others may have made the file.
        number = os.open(self._folder / file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        descriptor = _Descriptor(number)
        self._open.add(descriptor)
        return descriptor

    def _leave(self, descriptor: _Descriptor | None) -> None:
        if descriptor in self._open:  # else this is a fork, and has closed it
            self._open.discard(descriptor)
            with suppress(OSError):
                # A child forked meanwhile may have a copy: closing this one would not do.
                fcntl.flock(descriptor.number, fcntl.LOCK_UN)
            os.close(descriptor.number)


def _locked(descriptor: _Descriptor) -> bool:
    try:
        fcntl.flock(descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
