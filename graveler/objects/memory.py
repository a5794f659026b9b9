"""Objects in the memory of this process, for tests and for lakes that may be lost."""

# `ObjectStore` documents the methods.
# ruff: noqa: D102

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from graveler.base.clock import Clock, SystemClock
from graveler.errors import InvalidInputError, ObjectNotFoundError, PreconditionFailedError
from graveler.objects.store import (
    ANYTHING,
    Body,
    BodyReader,
    Expected,
    ObjectInfo,
    ObjectStore,
    check_key,
    check_prefix,
    check_range,
)


@dataclass(frozen=True, slots=True)
class _Stored:
    content: bytes
    info: ObjectInfo


class MemoryStore(ObjectStore):
    """A store in a dict: the reference for the other drivers."""

    def __init__(self, name: str = "private", *, clock: Clock | None = None) -> None:
        self._root = f"mem://{name}"
        self._clock = clock or SystemClock()
        self._objects: dict[str, _Stored] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInputError(
            f"{self._root} is in the memory of this process, and others cannot reach it: keep the "
            "repository's storage in a folder or on S3"
        )

    @property
    def root(self) -> str:
        return self._root

    def put(self, key: str, body: Body) -> ObjectInfo:
        content, checksum = _read(key, body)
        with self._lock:
            return self._store(key, content, checksum)

    def put_if_absent(self, key: str, body: Body) -> bool:
        content, checksum = _read(key, body)
        with self._lock:
            if key in self._objects:
                return False
            self._store(key, content, checksum)
            return True

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        content, checksum = _read(key, body)
        with self._lock:
            stored = self._objects.get(key)
            if stored is None or stored.info.etag != etag:
                state = "gone" if stored is None else f"at {stored.info.etag}"
                raise PreconditionFailedError(
                    f"{self.uri(key)} is {state}, not at {etag}: read it again and repeat"
                )
            return self._store(key, content, checksum)

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        return self._find(key, expected).content

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        check_range(start, length)
        return self._find(key, expected).content[start : start + length]

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        return io.BytesIO(self._find(key, expected).content)

    def head(self, key: str) -> ObjectInfo:
        return self._find(key, ANYTHING).info

    def delete(self, key: str) -> bool:
        check_key(key)
        with self._lock:
            self._objects.pop(key, None)
        return False

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        check_prefix(after)
        passed = after.encode()
        with self._lock:
            infos = [
                stored.info
                for key, stored in self._objects.items()
                if key.startswith(prefix) and key.encode() > passed
            ]
        yield from sorted(infos, key=lambda info: info.key.encode())

    def snapshot(self) -> Any:
        """Return a copy of the whole store, for `restore`."""
        with self._lock:
            return self._writes, dict(self._objects)

    def restore(self, snapshot: Any) -> None:
        """Replace the content of the store by a snapshot."""
        with self._lock:
            self._writes, objects = snapshot
            self._objects = dict(objects)

    def _find(self, key: str, expected: Expected) -> _Stored:
        check_key(key)
        stored = self._objects.get(key)
        if stored is None:
            raise ObjectNotFoundError(f"nothing at {self.uri(key)}")
        expected.check(self.uri(key), stored.info)
        return stored

    def _store(self, key: str, content: bytes, checksum: str) -> ObjectInfo:
        self._writes += 1
        info = ObjectInfo(key, len(content), str(self._writes), self._clock.now(), checksum)
        self._objects[key] = _Stored(content, info)
        return info


def _read(key: str, body: Body) -> tuple[bytes, str]:
    check_key(key)
    with BodyReader(body) as reader:
        content = b"".join(reader.pieces())
    return content, reader.checksum
