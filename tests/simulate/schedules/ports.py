"""The two store ports of one simulated process: each call is a step.

Calls whose order cannot matter are not steps. These are reads of values that never change:
existing objects and commit records, and the protection rules if no process changes them. The
creation of such values is not a step either. They become visible to the other processes as
late as possible, together with the next call of the process. Garbage collection changes these
values. In scenarios with garbage collection every call is a step.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, BinaryIO

from graveler.errors import KVOutdatedError, ObjectNotFoundError, PreconditionFailedError
from graveler.kv.driver import Driver
from graveler.kv.store import KVStore, Predicate, Stored
from graveler.objects.store import ANYTHING, Body, BodyReader, Expected, ObjectInfo, ObjectStore
from tests.simulate.scenarios.shared import GENERATION, OBJECTS, TURNS, Access, Call
from tests.simulate.schedules.processes import Process, written_on

_DAY_BYTES = 2


class SimulatedKV(KVStore):
    """The key-value port of one process.

    Args:
        process: The process that makes the calls.
        all_steps: Whether every call is a step.
        turns: Whether one process at a time can hold ``turn``; otherwise no process holds it.
    """

    def __init__(self, process: Process, *, all_steps: bool, turns: bool) -> None:
        self._process = process
        self._all_steps = all_steps
        self._turns = turns

    def get(self, partition: str, key: bytes) -> Stored | None:
        known, stored = self._known(partition, key)
        return stored if known else self._saw(key, self._process.call(Call("get", partition, key)))

    def get_many(self, keys: Sequence[tuple[str, bytes]]) -> list[Stored | None]:
        known = {key: self._known(*key) for key in keys}
        asked = tuple(key for key, (is_known, _) in known.items() if not is_known)
        if len(asked) == 1:
            return [self.get(*key) for key in keys]
        found = self._process.call(Call("get_many", keys=asked)) if asked else ()
        assert isinstance(found, tuple)
        answers = {key: stored for key, (_, stored) in known.items()}
        answers |= {key: self._saw(key[1], one) for key, one in zip(asked, found, strict=True)}
        return [answers[key] for key in keys]

    def _known(self, partition: str, key: bytes) -> tuple[bool, Stored | None]:
        """Return whether the key can be read without a step, and its value."""
        if self._all_steps or not key.startswith((b"commit/", b"settings/")):
            return False, None
        process = self._process
        value = process.find_late(partition, key) or process.shared.find(partition, key)
        known = value is not None or key.startswith(b"settings/")
        return known, None if value is None else Stored(value, value)

    def _saw(self, key: bytes, stored: object) -> Stored | None:
        assert stored is None or isinstance(stored, Stored)
        if stored is not None and key.startswith(b"branch/"):
            self._process.seen[key] = stored.value
        return stored

    @contextmanager
    def turn(self, name: str, patience: float) -> Iterator[bool]:
        if not self._turns:
            yield False
            return
        mine = self._process.name.encode()
        had = self._process.call(Call("put_absent", TURNS, name.encode(), mine)) is True
        try:
            yield had
        finally:
            if had and not self._process.dead:
                self._process.call(Call("delete", TURNS, name.encode()))

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        if not self._all_steps and key.startswith(b"commit/"):
            self._process.late[partition, key] = value
            return
        self._process.call(Call("set", partition, key, value))

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in items:
            self.set(partition, key, value)

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> Predicate:
        self._process.call(Call("set_if", partition, key, value, predicate))
        return value

    def delete(self, partition: str, key: bytes) -> None:
        self._process.call(Call("delete", partition, key))

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        self._process.call(Call("delete_if", partition, key, b"", predicate))

    def drop(self, partition: str) -> None:
        position: object = b""
        while isinstance(position, bytes):
            position = self._process.call(Call("sweep", partition, position))

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        position = start
        while True:
            item = self._process.call(Call("next", partition, position))
            if not isinstance(item, tuple):
                return
            yield item
            position = item[0] + b"\0"

    def partitions(self, prefix: str) -> Iterator[str]:
        names = self._process.call(Call("names", prefix))
        assert isinstance(names, tuple)
        return iter(names)

    def close(self) -> None:
        pass


class SimulatedFileKV(Driver):
    """The driver of a key-value store in a file, which another file may replace."""

    def __init__(self, process: Process, **_: bool) -> None:
        self._process = process
        self._opened = process.shared.generation()

    def _call(self, name: str, partition: str, *given: Any) -> Any:
        return self._process.call(Call(name, f"opened-{self._opened}:{partition}", *given))

    def _get(self, partition: str, key: bytes) -> bytes | None:
        stored = self._call("get", partition, key)
        return None if stored is None else bytes(stored.value)

    def _get_many(self, keys: Sequence[tuple[str, bytes]]) -> Mapping[tuple[str, bytes], bytes]:
        values = ((key, self._get(*key)) for key in keys)
        return {key: value for key, value in values if value is not None}

    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        self._call("set", partition, key, value)

    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        for key, value in chunk:
            self._set(partition, key, value)

    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        with suppress(PreconditionFailedError):
            self._call("set_if", partition, key, value, predicate)
            return True
        return False

    def _delete(self, partition: str, key: bytes) -> None:
        self._call("delete", partition, key)

    def _delete_if(self, partition: str, key: bytes, value: bytes) -> bool:
        with suppress(PreconditionFailedError):
            self._call("delete_if", partition, key, b"", value)
            return True
        return False

    def _drop(self, partition: str) -> None:
        position: object = b""
        while isinstance(position, bytes):
            position = self._call("sweep", partition, position)

    def _page(self, partition: str, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        item = self._call("next", partition, start)
        if item is None:
            return []
        return [item, *self._page(partition, item[0] + b"\0", limit - 1)] if limit > 1 else [item]

    def partitions(self, prefix: str) -> Iterator[str]:
        return iter(self._process.call(Call("names", prefix)))  # type: ignore[call-overload, no-any-return]

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        return nullcontext(enter_result=False)

    def _check_open(self) -> None:
        pass

    def _check_same(self) -> None:
        found = self._process.call(Call("get", GENERATION, b""))
        if isinstance(found, Stored) and int(found.value) != self._opened:
            raise KVOutdatedError("the store was replaced")

    def close(self) -> None:
        pass


class SimulatedObjects(ObjectStore):
    """The object port of one process; an object is stored with the day of its writing before it.

    Attributes:
        all_steps: Whether every call is a step.
        put_threads: 0, because a schedule does not decide the order in which threads put objects.
    """

    put_threads = 0

    def __init__(self, process: Process, root: str, *, all_steps: bool) -> None:
        self.process = process
        self.all_steps = all_steps
        self._root = root

    @property
    def root(self) -> str:
        return self._root

    def find(self, key: str) -> bytes | None:
        """Return the object, or None."""
        stored = self._find(key.encode())
        return None if stored is None else stored[_DAY_BYTES:]

    def put(self, key: str, body: Body) -> ObjectInfo:
        with BodyReader(body) as reader:
            content = b"".join(reader.pieces())
        if self.all_steps:
            self.process.call(Call("set", OBJECTS, key.encode(), self._dated(content)))
        else:
            self.process.late[OBJECTS, key.encode()] = self._dated(content)
        return replace(_info(key, self._dated(content)), checksum=reader.checksum)

    def put_bytes(self, key: str, content: bytes) -> bool:
        """Store bytes if the object does not exist; return whether they were stored."""
        if self.all_steps:
            call = Call("put_absent", OBJECTS, key.encode(), self._dated(content))
            return self.process.call(call) is True
        name = key.encode()
        there = self.find(key) is not None
        if not there:
            self.process.late[OBJECTS, name] = self._dated(content)
        self.process.saw(Access(OBJECTS, name, name, writes=False), there)
        return not there

    def put_if_absent(self, key: str, body: Body) -> bool:
        with BodyReader(body) as reader:
            content = b"".join(reader.pieces())
        return self.put_bytes(key, content)

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        raise NotImplementedError  # no process of a scenario replaces an object

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        stored = self._there(key)
        expected.check(self.uri(key), _info(key, stored))
        return stored[_DAY_BYTES:]

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        return self.get(key, expected)[start : start + length]

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        return io.BytesIO(self.get(key, expected))

    def head(self, key: str) -> ObjectInfo:
        return _info(key, self._there(key))

    def delete(self, key: str) -> bool:
        return bool(self.process.call(Call("delete", OBJECTS, key.encode())))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        position = max(prefix.encode(), after.encode() + b"\0" if after else b"")
        while True:
            item = self.process.call(Call("next", OBJECTS, position))
            if not isinstance(item, tuple) or not item[0].startswith(prefix.encode()):
                return
            yield _info(item[0].decode(), item[1])
            position = item[0] + b"\0"

    def _dated(self, content: bytes) -> bytes:
        return self.process.day.to_bytes(_DAY_BYTES) + content

    def _find(self, key: bytes) -> bytes | None:
        if self.all_steps:
            stored = self.process.call(Call("get", OBJECTS, key))
            return stored.value if isinstance(stored, Stored) else None
        late = self.process.find_late(OBJECTS, key)
        return late if late is not None else self.process.shared.find(OBJECTS, key)

    def _there(self, key: str) -> bytes:
        stored = self._find(key.encode())
        if stored is None:
            raise ObjectNotFoundError(f"nothing at {self.uri(key)}")
        return stored


def _info(key: str, stored: bytes) -> ObjectInfo:
    day = int.from_bytes(stored[:_DAY_BYTES])
    return ObjectInfo(key, len(stored) - _DAY_BYTES, str(day), written_on(day))
