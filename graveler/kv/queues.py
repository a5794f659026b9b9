"""Turns by queues in the store itself: they need no session, no clock of others, and no lock.

A queue is one record: the tickets of those who wait, in the order of their requests. The first
ticket has the turn. The others look at the record from time to time, and hold nothing meanwhile.
A ticket that stays first for five seconds counts as that of a process that is gone or stopped, and
is removed by one that waits. One that waits in vain also removes all tickets before its own: their
time was over before. Everyone measures these seconds with their own clock.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from time import monotonic
from typing import Any

from graveler.base.clock import Clock, IdSource
from graveler.errors import GravelerError
from graveler.kv.record_store import ABSENT_VERSION, RecordStore, Version
from graveler.kv.store import KVStore
from graveler.kv.turns import Turns

PARTITION = "turns"
_LONGEST_S = 5.0
_PAUSE_S = 0.005  # for each ticket ahead
_LONGEST_PAUSE_S = 0.05
_WITHOUT_S = 60.0
_OVER = 0.9  # of the patience, which is the same for all that wait at a name

Queue = tuple[str, ...]


class QueueTurns:
    """Turns of the threads of all processes that use a store, roughly in the order of requests.

    In each process, one thread at a time requests a name from the store. A turn that no other
    process wants costs two round trips. After a request that timed out, the process takes no turns at this
    name for a minute.
    """

    def __init__(self, store: KVStore, clock: Clock, ids: IdSource) -> None:
        self._queues: RecordStore[str, Any] = RecordStore(
            store, PARTITION, key=_key, encode=_encoded, decode=_decoded
        )
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

    def _join(self, name: str, ticket: str, deadline: float, patience: float) -> Version | None:
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
                self._clock.sleep(min(_PAUSE_S * ahead, _LONGEST_PAUSE_S))
                version = Version(*(self._queues.find(name) or ABSENT_VERSION))
            before, queue = queue, version.record or ()
            since = since if queue[:1] == before[:1] else now
        return version

    def _leave(self, name: str, ticket: str, joined: Version) -> None:
        mine = (ticket,)
        while not (joined.record == mine and self._queues.remove(name, joined.predicate)):
            joined = self._change(
                name, lambda there: there if there == mine else _less(there, ticket)
            )
            if ticket not in (joined.record or ()):
                return

    def _change(
        self, name: str, change: Callable[[Queue], Queue], known: Version | None = None
    ) -> Version:
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


def _key(name: str) -> bytes:
    return sha256(name.encode()).hexdigest().encode()


def _encoded(queue: Queue) -> bytes:
    return " ".join(queue).encode()


def _decoded(raw: bytes) -> Queue:
    return tuple(raw.decode().split())
