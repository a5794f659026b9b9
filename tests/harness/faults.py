"""Stores that fail, end the process or run other code at one chosen call.

Wrap the stores of a system in :class:`FaultyKVStore` and :class:`FaultyObjectStore` that share
a :class:`Script`. Arm it for call 1, 2, 3 … and run the operation each time, until it ends without
a fault. Then every point between two calls has had a fault::

    script = Script()
    lake = a_lake_over(FaultyKVStore(kv, script), FaultyObjectStore(objects, script))
    for number in count(1):
        script.arm(number, lost_reply, moment="after")
        try:
            branch.commit("x")
        except GravelerError:
            ...                     # check the state, repeat
        if not script.disarm():
            break

Threads of one operation make their calls in any order. Give the object store `threads`, and strike
a call by its place: its name, its key, and the number of equal calls before it::

    script.arm(0, unavailable)
    operate()                       # without a fault: the script notes the places
    for place in sorted(set(script.places)):
        script.arm_at(place, unavailable)
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any, NamedTuple, NoReturn

from graveler.kv.store import KVStore
from graveler.objects.store import ObjectStore
from graveler.testing.faults import (
    Action,
    Moment,
    ObservedKV,
    ObservedObjects,
    ProcessDied,
    unavailable,
)

_OBJECT_CALLS = {"get": "get_object", "delete": "delete_object"}  # the other port has these, too


def dies(call: str) -> NoReturn:
    """End the process."""
    raise ProcessDied(call)


class CallPlace(NamedTuple):
    """A call of an object store, independent of its thread and time."""

    call: str
    key: str
    earlier: int = 0


class Script:
    """Counts the calls of the stores that share it, and strikes once, at one call."""

    def __init__(self) -> None:
        self.threads = False
        self.calls: list[str] = []
        self.places: list[CallPlace] = []
        self.struck = ""
        self._number = 0
        self._place: CallPlace | None = None
        self._action: Action = unavailable
        self._moment: Moment = "before"
        self._dead = False
        self._times: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    def arm(self, number: int, action: Action, *, moment: Moment = "before") -> None:
        """Strike at the call `number`, counted from 1 and from now on."""
        self._arm(number, None, action, moment)

    def arm_at(self, place: CallPlace, action: Action, *, moment: Moment = "before") -> None:
        """Strike at a place from now on."""
        self._arm(0, place, action, moment)

    def _arm(self, number: int, place: CallPlace | None, action: Action, moment: Moment) -> None:
        with self._lock:
            self.calls, self.places, self.struck = [], [], ""
            self._times.clear()
            self._number, self._place, self._action, self._moment = number, place, action, moment
            self._dead = False

    def disarm(self) -> str:
        """Stop striking; return the call that was struck, or ""."""
        with self._lock:
            self._number, self._place, self._dead = 0, None, False
            return self.struck

    @contextmanager
    def around(self, call: str, key: str = "") -> Iterator[None]:
        """Count a call, and strike before or after its effect if it is the chosen call."""
        mine = self._counted(call, key)
        if mine and self._moment == "before":
            self._strike(call)
        yield
        if mine and self._moment == "after":
            self._strike(call)

    def _counted(self, call: str, key: str) -> bool:
        """Return whether the call is to be struck."""
        with self._lock:
            if self._dead:
                raise ProcessDied(call)
            self.calls.append(call)
            place = None
            if key:
                place = CallPlace(call, key, self._times[call, key])
                self._times[call, key] += 1
                self.places.append(place)
            named = self._place is not None and place == self._place
            mine = (named or self._number == len(self.calls)) and not self.struck
            if mine:
                self.struck = call
            return mine

    def _strike(self, call: str) -> None:
        try:
            self._action(call)
        except ProcessDied:
            self._dead = self.threads
            raise


class FaultyKVStore(ObservedKV):
    """A key-value store whose calls a script counts and strikes."""

    def __init__(self, store: KVStore, script: Script) -> None:
        super().__init__(store)
        self._script = script

    def around(self, name: str, *args: Any) -> AbstractContextManager[None]:
        return self._script.around(name)


class FaultyObjectStore(ObservedObjects):
    """An object store whose calls a script counts and strikes."""

    def __init__(self, store: ObjectStore, script: Script, *, threads: int = 0) -> None:
        super().__init__(store)
        self._script = script
        self._threads = threads
        script.threads |= threads > 0

    @property
    def put_threads(self) -> int:  # type: ignore[override] # a class variable of each driver
        """Number of threads that put objects."""
        return self._threads

    def around(self, name: str, key: str) -> AbstractContextManager[None]:
        return self._script.around(_OBJECT_CALLS.get(name, name), key or "/")
