"""An object store whose calls are measured, for programs with a meter provider."""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from graveler.base.telemetry import OBJECT_BYTES, OBJECT_CALLS, Call, Calls
from graveler.objects.store import (
    ANYTHING,
    Body,
    Expected,
    ObjectInfo,
    ObjectStore,
    ObjectsWrapper,
    P,
    T,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# `ObjectStore` documents the methods.
# ruff: noqa: D102


class MeteredObjects(ObjectsWrapper):
    """A store that reports the seconds, bytes and errors of its calls.

    The bytes of an open object are counted when its stream is closed.
    """

    def __init__(self, store: ObjectStore, driver: str) -> None:
        super().__init__(store)
        self._driver = driver
        self._calls = Calls(
            OBJECT_CALLS,
            OBJECT_BYTES,
            ("graveler.objects.driver", driver),
            "graveler.operation.name",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return MeteredObjects, (self._store, self._driver)

    def _forward(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        with self._calls.of(call.__name__) as measured:
            result = call(*args, **named)
            if isinstance(result, bytes):
                measured.read = len(result)
            elif call.__name__ in _WRITTEN:
                measured.written = _WRITTEN[call.__name__](result, *args)
        return result

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        stream = super().open(key, expected)
        counted = _Counted(stream, self._calls.of("read"))
        return cast("BinaryIO", io.BufferedReader(counted, io.DEFAULT_BUFFER_SIZE))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        items = self._store.list(prefix, after=after)
        return self._calls.of("list").over(items, lambda _: 0)

    def level(self, folder: str = "") -> Iterator[ObjectInfo | str]:
        return self._calls.of("list").over(self._store.level(folder), lambda _: 0)


def _size(body: Body) -> int:
    if isinstance(body, Path):
        return body.stat().st_size
    if isinstance(body, (bytes, bytearray, memoryview)):
        return memoryview(body).nbytes
    return body.tell() if body.seekable() else 0


_WRITTEN: Mapping[str, Callable[..., int]] = {
    "put": lambda info, *_: info.size,
    "put_if_match": lambda info, *_: info.size,
    "put_if_absent": lambda stored, _, body: _size(body) if stored else 0,
    "put_all_if_absent": lambda stored, objects: sum(
        len(body) for (_, body), new in zip(objects, stored, strict=True) if new
    ),
}


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
