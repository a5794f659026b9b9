"""Faults in the stores and system calls of a victim: its death, and lost writes."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from graveler.kv.store import KVStore, Predicate, Stored
from tests.harness.faults import FaultyKVStore, Script

SYSTEM_CALLS = (
    "open",
    "write",
    "writev",
    "fsync",
    "replace",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "utime",
)


class KillPoints(Script):
    """Kills this process before or after the effect of a call, one call in `odds`.

    Nothing happens before `live` is set, so that a victim can begin its work.

    Args:
        random: Decides where.
        odds: One call in this number; 0 for never.
        pauses: Whether to also wait a little, one time in ten, to let other threads run.
    """

    def __init__(self, random: Random, odds: int, *, pauses: bool = False) -> None:
        super().__init__()
        self.live = False
        self._random, self._odds, self._pauses = random, odds, pauses

    @contextmanager
    def around(self, call: str, key: str = "") -> Iterator[None]:
        """Die or continue, make the call, and die or continue."""
        del call, key
        self._draw()
        yield
        self._draw()

    def _draw(self) -> None:
        if self._pauses and self._random.randrange(10) == 0:
            time.sleep(self._random.uniform(0, 0.004))
        if self._odds and self.live and self._random.randrange(2 * self._odds) == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingKVStore(FaultyKVStore):
    """Also passes on the calls of the port that are neither reads nor writes."""

    def turn(self, name: str, patience: float) -> Any:
        return self._store.turn(name, patience)


def guard_system_calls(points: KillPoints) -> None:
    """Put kill points around the system calls on files, for the rest of the process."""

    def guarded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def strike(*arguments: Any, **named: Any) -> Any:
            with points.around(name):
                return call(*arguments, **named)

        return strike

    for name in SYSTEM_CALLS:
        setattr(os, name, guarded(name, getattr(os, name)))


class ForgetfulKVStore(KillingKVStore):
    """Acknowledges one write in `odds` without making it, which a checker must detect.

    Args:
        store: The store for the other writes.
        call: The kind of write to forget: ``set``, ``set_many``, ``set_if``, ``delete_if``.
        odds: One write in this number is forgotten.
        random: Decides which.
    """

    def __init__(self, store: KVStore, *, call: str, odds: int, random: Random) -> None:
        super().__init__(store, Script())
        self._call, self._odds, self._random = call, odds, random

    def _makes(self, call: str) -> bool:
        return call != self._call or self._random.randrange(self._odds) != 0

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        if self._makes("set"):
            self._store.set(partition, key, value)

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        if self._makes("set_many"):
            self._store.set_many(partition, items)

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        if self._makes("set_if"):
            return self._store.set_if(partition, key, value, predicate)
        return value

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        if self._makes("delete_if"):
            self._store.delete_if(partition, key, predicate)


class LazyKVStore(KillingKVStore):
    """Keeps acknowledged writes in memory for some time. Its own reads show them.

    So does a disk that reports a flush before it makes it. The loss is visible only after the
    process dies.
    """

    def __init__(self, store: KVStore, *, most: int) -> None:
        super().__init__(store, Script())
        self._most = most
        self._kept: dict[tuple[str, bytes], bytes] = {}

    def get(self, partition: str, key: bytes) -> Stored | None:
        value = self._kept.get((partition, key))
        return self._store.get(partition, key) if value is None else Stored(value, value)

    def get_many(self, keys: Any) -> list[Stored | None]:
        return [self.get(partition, key) for partition, key in keys]

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self._kept[partition, key] = value
        if len(self._kept) > self._most:
            self._flush()

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        self._flush()
        return self._store.set_if(partition, key, value, predicate)

    def drop(self, partition: str) -> None:
        self._flush()
        self._store.drop(partition)

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        self._flush()
        return self._store.scan(partition, start)

    def close(self) -> None:
        self._flush()
        self._store.close()

    def _flush(self) -> None:
        while self._kept:
            (partition, key), value = self._kept.popitem()
            self._store.set(partition, key, value)
