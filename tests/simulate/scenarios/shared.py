"""The stores that all simulated processes share: partitions in memory, one call at a time.

A call is one step of a schedule. It reports the keys that it read or wrote, so that the
explorer can determine whether two steps commute.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from graveler.errors import PreconditionFailedError
from graveler.kv.driver import changed, holds
from graveler.kv.store import Predicate, Stored

OBJECTS = "objects"
GENERATION = "generation"
"""The key-value store of this number is the present one; the key is empty."""

_OPENED = re.compile(r"opened-([0-9]+):(.*)", re.DOTALL)
TURNS = "turns"


class Call(NamedTuple):
    """A call of a process that has not been made yet."""

    name: str
    partition: str = ""
    key: bytes = b""
    value: bytes = b""
    predicate: Predicate = None
    keys: tuple[tuple[str, bytes], ...] = ()


EVERY = "*"


class Access(NamedTuple):
    """The keys that a call read or wrote: from `low` to `high`, or to the end if it is None.

    The partition ``*`` means all partitions.
    """

    partition: str
    low: bytes
    high: bytes | None
    writes: bool


def clash(one: Access, other: Access) -> bool:
    """Return whether the order of the two accesses matters."""
    return (
        (one.writes or other.writes)
        and (one.partition == other.partition or EVERY in (one.partition, other.partition))
        and (one.high is None or other.low <= one.high)
        and (other.high is None or one.low <= other.high)
    )


EARLIER: dict[str, dict[bytes, bytes]] = {}
"""The copy that the call ``replace`` puts in the place of the key-value store."""


class Shared:
    """The contents of the stores, with a digest that every write updates.

    Attributes:
        digest: A digest that is equal for equal contents.
        watch: Called with (partition, key, value before, value after) before each write.
    """

    def __init__(self) -> None:
        self.partitions: dict[str, dict[bytes, bytes]] = {}
        self.digest = 0
        self.watch: Callable[[str, bytes, bytes | None, bytes | None], None] | None = None

    def fork(self) -> "Shared":
        """Return an independent copy."""
        copy = Shared()
        copy.partitions = {name: dict(held) for name, held in self.partitions.items()}
        copy.digest = self.digest
        return copy

    def find(self, partition: str, key: bytes) -> bytes | None:
        """Return the value at the key, or None."""
        held = self.partitions.get(partition)
        return None if held is None else held.get(key)

    def first(self, partition: str, start: bytes) -> tuple[bytes, bytes] | None:
        """Return the first key at or after `start`, with its value."""
        held = self.partitions.get(partition)
        if not held:
            return None
        if len(held) == 1:
            key, value = next(iter(held.items()))
            return (key, value) if key >= start else None
        keys = sorted(held)
        at = bisect_left(keys, start)
        return (keys[at], held[keys[at]]) if at < len(keys) else None

    def write(self, partition: str, key: bytes, value: bytes | None) -> None:
        """Write the value, or remove the key where it is None."""
        before = self.find(partition, key)
        if before == value:
            return
        if self.watch is not None:
            self.watch(partition, key, before, value)
        if before is not None:
            self.digest ^= hash((partition, key, before))
        if value is None:
            held = self.partitions[partition]
            del held[key]
            if not held:
                del self.partitions[partition]
            return
        self.partitions.setdefault(partition, {})[key] = value
        self.digest ^= hash((partition, key, value))

    def perform(self, call: Call) -> tuple[object, tuple[Access, ...]]:
        """Make the call; return its result and the keys that it accessed.

        An error of the call is returned as its result.
        """
        if call.name == "get_many":
            return _get_many(self, call)
        if call.name == "replace":
            return self._replace(call)
        if opened := _OPENED.match(call.partition):
            present = self.generation() == int(opened[1])
            inside = opened[2] if present else f"removed-{opened[2]}"
            result, access = _CALLS[call.name](self, call._replace(partition=inside))
            return result, (access, Access(GENERATION, b"", b"", writes=False))
        result, access = _CALLS[call.name](self, call)
        return result, (access,)

    def kv(self) -> dict[str, dict[bytes, bytes]]:
        """Return a copy of the key-value store."""
        return {name: dict(held) for name, held in self.partitions.items() if name != OBJECTS}

    def generation(self) -> int:
        """Return the number of the key-value store that is in its place now."""
        return int(self.find(GENERATION, b"") or b"0")

    def _replace(self, call: Call) -> tuple[object, tuple[Access, ...]]:
        """Put an earlier copy in the place of the key-value store, which its users keep."""
        watch, self.watch = self.watch, None
        for name, held in self.kv().items():
            for key, value in held.items():
                self.write(f"removed-{name}", key, value)
                self.write(name, key, None)
        for name, copied in EARLIER.items():
            for key, value in copied.items():
                self.write(name, key, value)
        self.write(GENERATION, b"", b"1")
        self.watch = watch
        return None, (Access(EVERY, b"", None, writes=True),)


def _point(call: Call, *, writes: bool) -> Access:
    return Access(call.partition, call.key, call.key, writes)


def _get(shared: Shared, call: Call) -> tuple[object, Access]:
    value = shared.find(call.partition, call.key)
    return (None if value is None else Stored(value, value)), _point(call, writes=False)


def _get_many(shared: Shared, call: Call) -> tuple[object, tuple[Access, ...]]:
    """Read several keys in one step, atomically."""
    results = [_get(shared, Call("get", *key)) for key in call.keys]
    return tuple(value for value, _ in results), tuple(access for _, access in results)


def _set(shared: Shared, call: Call) -> tuple[object, Access]:
    shared.write(call.partition, call.key, call.value)
    return None, _point(call, writes=True)


def _delete(shared: Shared, call: Call) -> tuple[object, Access]:
    shared.write(call.partition, call.key, None)
    return None, _point(call, writes=True)


def _set_if(shared: Shared, call: Call) -> tuple[object, Access]:
    if not holds(call.predicate, shared.find(call.partition, call.key)):
        return _refused(call), _point(call, writes=False)
    return _set(shared, call)


def _delete_if(shared: Shared, call: Call) -> tuple[object, Access]:
    if shared.find(call.partition, call.key) != call.predicate:
        return _refused(call), _point(call, writes=False)
    return _delete(shared, call)


def _refused(call: Call) -> PreconditionFailedError:
    return changed(call.partition, call.key, call.predicate)


def _next(shared: Shared, call: Call) -> tuple[object, Access]:
    found = shared.first(call.partition, call.key)
    high = None if found is None else found[0]
    return found, Access(call.partition, call.key, high, writes=False)


def _sweep(shared: Shared, call: Call) -> tuple[object, Access]:
    """Remove the first key from `key` on; return the next position, or None if no key follows."""
    found = shared.first(call.partition, call.key)
    if found is not None:
        shared.write(call.partition, found[0], None)
        after = shared.first(call.partition, found[0])
        if after is not None:
            return found[0], Access(call.partition, call.key, after[0], writes=True)
    return None, Access(call.partition, call.key, None, writes=True)


def _put_absent(shared: Shared, call: Call) -> tuple[object, Access]:
    if shared.find(call.partition, call.key) is not None:
        return False, _point(call, writes=False)
    shared.write(call.partition, call.key, call.value)
    return True, _point(call, writes=True)


def _names(shared: Shared, call: Call) -> tuple[object, Access]:
    found = tuple(sorted(name for name in shared.partitions if name.startswith(call.partition)))
    return found, Access(EVERY, b"", None, writes=False)


def _pause(_: Shared, call: Call) -> tuple[object, Access]:
    return None, _point(call, writes=False)


_CALLS: dict[str, Callable[[Shared, Call], tuple[object, Access]]] = {
    "get": _get,
    "set": _set,
    "delete": _delete,
    "set_if": _set_if,
    "delete_if": _delete_if,
    "next": _next,
    "sweep": _sweep,
    "put_absent": _put_absent,
    "names": _names,
    "pause": _pause,
}
