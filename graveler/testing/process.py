"""The calls of one process to the stores: they are named, counted, and stopped on request of a test.

A process that has died stays dead: code that still runs (``finally`` blocks, ``except
BaseException``, other threads) cannot reach the stores, so it has no effect.
"""

# The ports document the methods of the stores.
# ruff: noqa: D102

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import RLock, get_ident
from types import FrameType
from typing import Any, ClassVar

from graveler.kv.store import KVStore
from graveler.objects.store import ObjectStore
from graveler.testing.faults import (
    Action,
    Moment,
    ObservedKV,
    ObservedObjects,
    ProcessDied,
    lost_reply,
    unavailable,
)

_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_RUNNER = str(Path(__file__).with_name("pipeline.py"))
_LIBRARY = f"{sysconfig.get_path('stdlib')}{os.sep}"
_KV_WRITES = frozenset({"set", "set_many", "set_if", "delete", "delete_if", "drop"})
_OBJECT_WRITES = frozenset({"put", "put_if_absent", "put_if_match", "delete"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a store."""

    number: int
    store: str
    name: str
    partition: str
    key: str
    writes: bool
    where: str

    def __str__(self) -> str:
        kind = self.partition.split(":")[0]
        what = " ".join(part for part in (self.store, self.name, kind, self.key) if part)
        return f"call {self.number} ({what})" + (f" at {self.where}" if self.where else "")


class Process:
    """The calls of one process to the stores that it shares with other processes."""

    _effects: ClassVar[RLock] = (
        RLock()
    )  # shared by all processes, so that effects happen one at a time

    def __init__(self, seen: Callable[[Call], None] | None = None) -> None:
        self.calls: list[Call] = []
        self.struck: Call | None = None
        self.dead = False
        self.threaded = False
        self._seen = seen
        self._thread = get_ident()
        self._lock = RLock()
        self._number = 0
        self._of = ""
        self._counted = 0
        self._moment: Moment = "before"
        self._action: Action | None = None

    def strike(
        self, number: int, action: Action, *, moment: Moment = "before", of: str = ""
    ) -> None:
        """Do `action` at a call from now on."""
        self._number, self._action, self._moment, self._of = number, action, moment, of
        self._counted, self.struck = 0, None

    def die(self, call: str) -> None:
        """End the process at a call."""
        self.dead = True
        raise ProcessDied(call)

    @contextmanager
    def around(self, store: str, name: str, partition: str, key: str) -> Iterator[None]:
        """Count a call and let it happen, unless it is the call to strike."""
        if self.dead:
            raise ProcessDied(name)
        writes = name in (_KV_WRITES if store == "kv" else _OBJECT_WRITES)
        with self._lock:
            call = Call(len(self.calls) + 1, store, name, partition, key, writes, _where())
            self.calls.append(call)
            self.threaded = self.threaded or get_ident() != self._thread
            mine = self._is_struck(call)
        if mine and self._moment == "before":
            self._act(call)
        with self._effects if writes and store == "kv" else nullcontext():
            yield
            if self._seen is not None:
                self._seen(call)
        if self.dead:  # another thread ended the process during the call
            raise ProcessDied(name)
        if mine and self._moment == "after":
            self._act(call)

    def _is_struck(self, call: Call) -> bool:
        if self._action is None or self.struck is not None:
            return False
        if self._of not in {"", call.store, call.name}:
            return False
        self._counted += 1
        if self._counted != self._number:
            return False
        self.struck = call
        return True

    def _act(self, call: Call) -> None:
        assert self._action is not None
        self._action(call.name)


def _where() -> str:
    """Return the innermost line of code outside this module and the library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _RUNNER:
            return ""  # the caller's frames from here on called `simulate`, not a store
        if not file.startswith((_OURS, _LIBRARY, "<")) and "site-packages" not in file:
            line = linecache.getline(file, frame.f_lineno).strip().rstrip(":")
            return f"{Path(file).name}:{frame.f_lineno} in {frame.f_code.co_name}, `{line}`"
        frame = frame.f_back
    return ""


class WatchedKV(ObservedKV):
    """A key-value store whose calls a process counts."""

    def __init__(self, store: KVStore, process: Process) -> None:
        super().__init__(store)
        self._process = process

    def around(self, name: str, *args: Any) -> AbstractContextManager[None]:
        partition, key = args[0], args[1] if args[1:] and name != "set_many" else b""
        if name == "get_many":
            partition = " ".join(dict.fromkeys(partition for partition, _ in args[0]))
            key = b" ".join(key for _, key in args[0])
        return self._process.around("kv", name, partition, key.decode("utf-8", "replace"))

    def close(self) -> None:
        """Do nothing: other processes still use the store."""


class WatchedObjects(ObservedObjects):
    """An object store whose calls a process counts."""

    put_threads: ClassVar[int] = (
        0  # the caller's own thread puts objects, so that the order is always the same
    )

    def __init__(self, store: ObjectStore, process: Process) -> None:
        super().__init__(store)
        self._process = process

    def around(self, name: str, key: str) -> AbstractContextManager[None]:
        return self._process.around("objects", name, "", key)

    def close(self) -> None:
        """Do nothing: other processes still use the store."""


class Faults:
    """Makes one call to the stores fail.

    Calls are counted from 1, from the beginning of the block. `of` counts only those of one
    store (``kv``, ``objects``) or one method (``set_if``, ``put``, …). A block that does not reach
    the call fails, because it tests nothing.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def calls(self) -> list[Call]:
        """Every call made so far."""
        return self._process.calls

    @contextmanager
    def at(
        self, number: int, action: Action, *, moment: Moment = "before", of: str = ""
    ) -> Iterator[None]:
        """Do `action`, called with the name of the call, at the call `number` of the block."""
        self._process.strike(number, action, moment=moment, of=of)
        yield
        if self._process.struck is None:
            raise AssertionError(f"the block makes less than {number} calls {of}".rstrip())

    @contextmanager
    def unavailable(self, number: int = 1, *, of: str = "") -> Iterator[None]:
        """Let a call fail with BackendUnavailableError and without an effect."""
        with self.at(number, unavailable, of=of):
            yield

    @contextmanager
    def lost_reply(self, number: int = 1, *, of: str = "") -> Iterator[None]:
        """Let a call take effect and lose its reply."""
        with self.at(number, lost_reply, moment="after", of=of):
            yield

    @contextmanager
    def dies(self, number: int = 1, *, moment: Moment = "before", of: str = "") -> Iterator[None]:
        """End the process at the call: the block ends, and its remaining code has no effect.

        Continue as another process with ``graveler_reopen()``.
        """
        with self.at(number, self._process.die, moment=moment, of=of):
            try:
                yield
            except BaseException:
                if not self._process.dead:
                    raise
