"""An object store whose calls are measured, for programs with a meter provider."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from graveler.base.telemetry import OBJECT_BYTES, OBJECT_CALLS, Call, Calls
from graveler.objects.store import ANYTHING, Body, Expected, ObjectInfo, ObjectStore

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# `ObjectStore` documents the methods.
# ruff: noqa: D102


class MeteredObjects(ObjectStore):
    """A store that reports the seconds, bytes and errors of its calls.

    The bytes of an open object are counted when its stream is closed.

    Args:
        driver: The name of the driver: ``s3``, ``file`` or ``memory``.
    """

    def __init__(self, store: ObjectStore, driver: str) -> None:
        self._store = store
        self._driver = driver
        self._calls = Calls(
            OBJECT_CALLS,
            OBJECT_BYTES,
            ("graveler.objects.driver", driver),
            "graveler.operation.name",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return MeteredObjects, (self._store, self._driver)

    @property
    def put_threads(self) -> int:  # type: ignore[override] # a class variable of each driver
        return self._store.put_threads

    def local_file(self, key: str) -> Path | None:
        return self._store.local_file(key)

    @property
    def root(self) -> str:
        return self._store.root

    def put(self, key: str, body: Body) -> ObjectInfo:
        with self._calls.of("put") as call:
            info = self._store.put(key, body)
            call.written = info.size
        return info

    def put_if_absent(self, key: str, body: Body) -> bool:
        with self._calls.of("put_if_absent") as call:
            put = self._store.put_if_absent(key, body)
            call.written = _size(body) if put else 0
        return put

    def put_all_if_absent(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        with self._calls.of("put_all_if_absent") as call:
            put = self._store.put_all_if_absent(objects)
            call.written = sum(
                len(body) for (_, body), new in zip(objects, put, strict=True) if new
            )
        return put

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        with self._calls.of("put_if_match") as call:
            info = self._store.put_if_match(key, body, etag)
            call.written = info.size
        return info

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        with self._calls.of("get") as call:
            data = self._store.get(key, expected)
            call.read = len(data)
        return data

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        with self._calls.of("get_range") as call:
            data = self._store.get_range(key, start, length, expected)
            call.read = len(data)
        return data

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        with self._calls.of("open"):
            stream = self._store.open(key, expected)
        counted = _Counted(stream, self._calls.of("read"))
        return cast("BinaryIO", io.BufferedReader(counted, io.DEFAULT_BUFFER_SIZE))

    def head(self, key: str) -> ObjectInfo:
        with self._calls.of("head"):
            return self._store.head(key)

    def delete(self, key: str) -> bool:
        with self._calls.of("delete"):
            return self._store.delete(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        items = self._store.list(prefix, after=after)
        return self._calls.of("list").over(items, lambda _: 0)

    def level(self, folder: str = "") -> Iterator[ObjectInfo | str]:
        return self._calls.of("list").over(self._store.level(folder), lambda _: 0)

    def uri(self, key: str) -> str:
        return self._store.uri(key)

    def close(self) -> None:
        self._store.close()


def _size(body: Body) -> int:
    if isinstance(body, Path):
        return body.stat().st_size
    if isinstance(body, (bytes, bytearray, memoryview)):
        return memoryview(body).nbytes
    return body.tell() if body.seekable() else 0


class _Counted(io.RawIOBase):
    """A stream whose reads count as a single call. Closing the stream ends the call."""

    def __init__(self, stream: BinaryIO, call: Call) -> None:
        super().__init__()
        self._stream = cast("io.BufferedIOBase", stream)
        self._call = call
        self._error: type[BaseException] | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, origin: int = io.SEEK_SET, /) -> int:
        return self._stream.seek(offset, origin)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        with self._timed():
            count = self._stream.readinto(buffer)
        self._call.read += count
        return count

    def readall(self) -> bytes:
        with self._timed():
            data = self._stream.read()
        self._call.read += len(data)
        return data

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        except BaseException as error:
            self._error = type(error)
            raise
        finally:
            self._call.seconds += perf_counter() - began

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._call.end(self._error)
        super().close()
