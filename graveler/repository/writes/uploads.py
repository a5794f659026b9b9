"""Uploading many files to a branch: threads upload bytes, and entries are staged in chunks.

Entries are staged in order, so a call that fails has staged the first items. A chunk is staged
after 1,000 entries or 10 seconds. So the branch is read seldom, a stale writer is fenced soon, and
an entry names the bytes long before garbage collection may remove them, after a day.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Self, TypedDict, cast

from graveler.base import arguments as args
from graveler.base.background import Progress, no_progress
from graveler.base.names import check_path
from graveler.base.parallel import Bounds, in_order, thread_count
from graveler.errors import FencedError, GravelerError, InvalidInputError
from graveler.model import Entry, Transfer
from graveler.objects.store import Body, BodyReader
from graveler.reads.stores import Stores
from graveler.repository.writes.staged import StagedWrites, stored

_CHUNK = 1_000
_CHUNK_TIME = timedelta(seconds=10)
_WINDOW = 1_000
_STREAM_BYTES = 8 << 20
PART_BYTES = 64 << 20
"""The maximum memory of a driver for a file that it sends, as for S3: 64 MiB."""


class PutTerms(TypedDict, total=False):
    """The keyword arguments of a call that puts many files.

    Attributes:
        content_type: Media type of all files.
        replace: Commit the entries even if the head has the same content.
        threads: How many files are uploaded at the same time, 1 to 64. The default is 32, or 1 for
            storage on the local disk.
        progress: Called with the numbers of completed and of known files.
    """

    content_type: str
    metadata: Mapping[str, str] | None
    replace: bool
    threads: int | None
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class Terms:
    """Checked terms."""

    content_type: str
    metadata: dict[str, str]
    given: bool
    replace: bool
    threads: int
    progress: Progress

    @classmethod
    def of(
        cls,
        stores: Stores,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Return the terms of a caller's arguments."""
        return cls(
            args.media_type(content_type),
            args.pairs(metadata, "metadata"),
            metadata is not None,
            args.flag(replace, "replace"),
            thread_count(threads, stores.objects.put_threads),
            args.optional(args.function, progress, "progress") or no_progress,
        )


class Chunks:
    """Stages entries in chunks.

    Args:
        writes: Returns the object that stages writes. A run renews its lease with each call.
    """

    def __init__(
        self, stores: Stores, writes: Callable[[], StagedWrites], *, replace: bool
    ) -> None:
        self.staged = self.bytes = 0
        self._clock = stores.clock
        self._writes = writes
        self._replace = replace
        self._chunk: list[Entry] = []
        self._since: datetime | None = None
        self._first = writes()
        self._first.check()

    def add(self, entry: Entry) -> None:
        """Stage an entry with the next chunk."""
        now = self._clock.now()
        self._since = self._since or now
        self._chunk.append(entry)
        if len(self._chunk) >= _CHUNK or now - self._since >= _CHUNK_TIME:
            self.flush()

    def flush(self) -> None:
        """Stage the chunk."""
        chunk, self._chunk, self._since = self._chunk, [], None
        if chunk:
            self._writes().stage(chunk, replaces=self._replace, after=self._first)
            self.staged += len(chunk)
            self.bytes += sum(entry.size for entry in chunk)

    @contextmanager
    def staging(self, hint: str) -> Iterator[None]:
        """Stage the entries that a block adds, even if it fails. The error has their number.

        An exception that ends the process stages no further entries.
        """
        try:
            yield
            self.flush()
        except BaseException as error:
            stopped = self._stopped(error, hint)
            if stopped is error:
                raise
            raise stopped from error

    def _stopped(self, error: BaseException, hint: str) -> BaseException:
        if isinstance(error, FencedError) or not isinstance(error, (Exception, KeyboardInterrupt)):
            return error
        with suppress(GravelerError):  # the first error is the one to report
            self.flush()
        told = f"{self.staged:,} files are staged" if self.staged else "nothing is staged"
        if self.staged == 1:
            told = "1 file is staged"
        if isinstance(error, GravelerError):
            return error.saying(f"{error}; {told}: {hint}")
        error.add_note(f"{told}: {hint}")
        return error


@dataclass(slots=True)
class _Put:
    """One item. Its body is dropped once it is stored."""

    path: str
    body: Body | None
    entry: Entry | None = None
    cost: int = field(default=0)


def put_many(
    stores: Stores,
    writes: Callable[[], StagedWrites],
    items: Any,
    terms: Terms,
) -> Transfer:
    """Store the bytes of many files and stage their entries."""
    chunks = Chunks(stores, writes, replace=terms.replace)
    taken = 0

    def store(path: str, body: Body) -> Entry:
        try:
            return stored(stores, path, body, terms.content_type, terms.metadata)
        except GravelerError as error:
            raise error.saying(f"{path!r}: {error}") from error
        except Exception as error:
            error.add_note(f"while {path!r} was put")
            raise

    def puts() -> Iterator[_Put]:
        nonlocal taken
        for taken, item in enumerate(given, 1):
            yield _taken(*_pair(item, taken - 1), store)

    def put(item: _Put) -> Entry:
        body, item.body = item.body, None
        return item.entry or store(item.path, cast("Body", body))

    given = items.items() if isinstance(items, Mapping) else items
    if isinstance(items, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInputError("items: give pairs (path, body), or a mapping of them")
    bounds: Bounds[_Put] = Bounds(terms.threads, _WINDOW, cost=lambda item: item.cost)
    with chunks.staging("put the items after these again"):
        for number, entry in enumerate(in_order(put, puts(), bounds), 1):
            chunks.add(entry)
            terms.progress("put", number, taken)
    return Transfer(chunks.staged, chunks.bytes)


def located(body: Body, name: str) -> Body:
    """Return a body. A file is returned as its local path, as read by `file_path`."""
    return args.file_path(body, name) if isinstance(body, Path) else body


def _pair(item: Any, at: int) -> tuple[str, Body]:
    """Return the path and the body of an item."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InvalidInputError(f"items[{at}]={type(item).__name__}: give pairs (path, body)")
    path = args.path_text(item[0], f"items[{at}][0]")
    check_path(path)
    return path, located(item[1], f"items[{at}][1]")


def _taken(path: str, body: Body, store: Callable[[str, Body], Entry]) -> _Put:
    """Return an item whose body does not change after the next item is taken.

    The iterable may reuse a buffer, or close a stream. So a buffer is copied, and a stream is read
    to its end. A long stream is stored at once.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        content = bytes(body)
        return _Put(path, content, cost=len(content))
    if isinstance(body, Path):
        return _Put(path, body, cost=cost_of(body))
    try:
        with BodyReader(body, hashed=False) as reader:
            head = reader.read(_STREAM_BYTES)
    except GravelerError as error:
        raise error.saying(f"{path!r}: {error}") from error
    if len(head) < _STREAM_BYTES:
        return _Put(path, head, cost=len(head))
    return _Put(path, None, entry=store(path, cast("BinaryIO", _Joined(head, body))))


def cost_of(path: Path) -> int:
    """Return the memory that the transfer of a local file takes."""
    try:
        return min(path.stat().st_size, PART_BYTES)
    except OSError:  # the thread that opens it reports it
        return 0


class _Joined:
    """A stream whose beginning was already read."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        if not self._head:
            return self._rest.read(size)
        piece, self._head = self._head[:size], self._head[size:]
        return bytes(piece)
