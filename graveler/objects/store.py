"""The object store interface: immutable objects with text keys, below a root.

Durability: when a put has returned, the object survives the death of the process and a crash of the
machine. The memory driver survives neither. An object exists whole or not at all.

Concurrency: any number of threads and processes may share a root. Of several ``put_if_absent`` for
the same key, exactly one wins.

A driver reads all kinds of body in the same way: in pieces, hashed while they are read.
"""

import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from errno import EACCES, EEXIST, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR, ENOTEMPTY, EPERM
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, ClassVar, ParamSpec, Self, TypeVar

from graveler.base.clock import unix_us
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    PreconditionFailedError,
    RetryableError,
)

P = ParamSpec("P")
T = TypeVar("T")
_ETAG = "etag:"
_MTIME = "mtime:"

Body = bytes | bytearray | memoryview | Path | BinaryIO
"""The body of an object: bytes, a file on disk, or an open binary stream (read to its end)."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The properties of an object that the store knows without reading it.

    Attributes:
        key: Key below the store's root.
        size: Size in bytes.
        etag: An opaque text that changes with every change of the object. It is "" for a symbolic
            link in the listing of a folder whose links are not followed.
        mtime: The time of the write, UTC.
        checksum: ``algorithm:hex`` of the content if the store has it without a read, else "".
        inode: Of a local file: its inode and the time of its last change in ns, in hexadecimal
            digits, with a ``-`` between. A writer of the file cannot choose them.
    """

    key: str
    size: int
    etag: str
    mtime: datetime
    checksum: str = ""
    inode: str = field(default="", compare=False)

    @property
    def changed_us(self) -> int:
        """The time of the last change of a local file, in µs since 1970."""
        return int(self.inode.partition("-")[2], 16) // 1000


@dataclass(frozen=True, slots=True)
class Expected:
    """The properties that a reader expects of an object. The reply with its bytes is checked.

    Attributes:
        size: Size in bytes, or None if unknown.
        version: ``etag:<ETag>``, ``mtime:<µs since 1970>`` or ``mtime:<µs> <inode>``, or "" if
            unknown.
    """

    size: int | None = None
    version: str = ""

    @property
    def etag(self) -> str:
        """The ETag, or "" if the version is not an ETag."""
        return self.version.removeprefix(_ETAG) if self.version.startswith(_ETAG) else ""

    def check(self, uri: str, info: ObjectInfo) -> None:
        """Refuse an object with other properties.

        Raises:
            PreconditionFailedError: The message has the actual and the expected property.
        """
        if self.size is not None and info.size != self.size:
            raise PreconditionFailedError(f"{uri} has {info.size} bytes, not {self.size}")
        if self.version not in {"", version_of(info, self.version)}:
            version = version_of(info, self.version)
            raise PreconditionFailedError(f"{uri} is at {version}, not at {self.version}")


ANYTHING = Expected()
"""Any state of the object is accepted."""


def version_of(info: ObjectInfo, like: str) -> str:
    """Return the version of an object in the form of `like`: its ETag, or its time and inode."""
    if like.startswith(_ETAG):
        return f"{_ETAG}{info.etag}"
    inode = f" {info.inode}" if " " in like else ""
    return f"{_MTIME}{unix_us(info.mtime)}{inode}"


MAX_KEY_BYTES = 1024
"""Maximum length of a key in UTF-8: the limit of S3, including the prefix of the root."""


_NO_NAMES = frozenset({"", ".", ".."})


def _fault(key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "it cannot be encoded in UTF-8"
    if not 1 <= size <= MAX_KEY_BYTES:
        return f"it has {size} bytes: give 1 to {MAX_KEY_BYTES}"
    if "\0" in key or "\\" in key:
        return "it holds a NUL or a backslash: leave them out"
    if not _NO_NAMES.isdisjoint(key.split("/")):
        return "an empty part, '.' or '..' names no object: leave it out, and a leading '/' too"
    return ""


def is_key(key: str) -> bool:
    """Return whether every driver can store an object of this key."""
    return not _fault(key)


def check_key(key: str) -> None:
    """Refuse a key that a driver cannot store, or that could lead out of the root.

    Raises:
        InvalidInputError: The message has the key and the fault.
    """
    if fault := _fault(key):
        raise InvalidInputError(f"{key!r} cannot be an object's key: {fault}")


def check_range(start: int, length: int) -> None:
    """Raise InvalidInputError for a negative start or length."""
    if start < 0 or length < 0:
        raise InvalidInputError(f"{length} bytes from {start}: give numbers from 0")


def check_prefix(prefix: str) -> None:
    """Raise InvalidInputError for a prefix that cannot be encoded in UTF-8."""
    try:
        prefix.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{prefix!r} cannot be a prefix: UTF-8 cannot hold it") from error


def folder_of_prefix(prefix: str) -> str | None:
    """Return the folder that holds every key with `prefix` ("" is the root).

    The result is None if no key can have the prefix: ``a//b``, ``../``.
    """
    folder = prefix.rpartition("/")[0]
    if not folder:
        return None if prefix.startswith("/") else ""
    return None if _fault(folder) else folder


class ObjectStore(ABC):
    """A store of objects by key.

    Keys are relative and ``/``-separated, without empty, ``.`` or ``..`` parts, NUL or backslash.
    They have 1 to 1024 bytes of UTF-8, including the root's prefix. An invalid key raises
    InvalidInputError. To be portable to every driver, a key must not be the beginning of another
    one (``a`` and ``a/b``), and its parts must have fewer than 256 bytes: a folder requires this.

    A store can be pickled, together with its credentials. The copy is opened in the process that
    unpickles it. A store in memory raises InvalidInputError.

    Attributes:
        put_threads: The best number of threads for many puts. 0 means that several objects are
            put in one call, by the caller or by one other thread.
    """

    put_threads: ClassVar[int] = 4

    def local_file(self, key: str) -> Path | None:
        """Return the local file that holds the object, or None if the store has no local files.

        A file is replaced, never changed, so a hard link to it keeps the earlier content. The
        method does not check whether the object exists.
        """
        return None

    @property
    @abstractmethod
    def root(self) -> str:
        """URI of the root, without a slash at the end: ``file:///lake/objects``, ``s3://b/p``."""

    @abstractmethod
    def put(self, key: str, body: Body) -> ObjectInfo:
        """Store the object. An earlier object at the key is replaced."""

    @abstractmethod
    def put_if_absent(self, key: str, body: Body) -> bool:
        """Store the object unless the key is taken. Return whether it was stored.

        Raises:
            OutcomeUnknownError: The replies were lost, or the disk failed at the last step. Read
                the key to find the outcome.
        """

    def put_all_if_absent(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        """Call :meth:`put_if_absent` for each key and its bytes, in any order.

        On return, all objects are durable. After an error, some may be stored.
        """
        return [self.put_if_absent(key, body) for key, body in objects]

    @abstractmethod
    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        """Replace the object if its etag is still `etag`.

        Raises:
            PreconditionFailedError: The etag differs, or the object is gone.
            OutcomeUnknownError: As for :meth:`put_if_absent`.
        """

    @abstractmethod
    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        """Return the whole object.

        Raises:
            ObjectNotFoundError: The key has no object.
            PreconditionFailedError: The object differs from `expected`. The check needs no further
                request. The same holds for the next two methods.
        """

    @abstractmethod
    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        """Return `length` bytes from byte `start`, or fewer at the end of the object."""

    @abstractmethod
    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        """Return a readable, seekable stream of the object. The caller closes it."""

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Return the properties of the object without reading it."""

    @abstractmethod
    def delete(self, key: str) -> bool:
        """Remove the object. A missing object is not an error.

        Returns:
            Whether an earlier request of this call may still take effect, because its reply was
            lost. An object that is put meanwhile may then be deleted, too. The same holds after
            BackendUnavailableError.
        """

    @abstractmethod
    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with `prefix`, in byte order of their keys.

        The list starts after the key `after`, which need not exist.

        Objects that are stored or deleted meanwhile may be missing or included.

        A file of another program may have a name that cannot be a key. It is yielded too, so that
        there is no silent gap: bytes that are not UTF-8 as lone surrogates.
        """

    def level(self, folder: str = "") -> Iterator[ObjectInfo | str]:
        """Yield the objects directly in a folder, and its folders as text that ends with '/'.

        Args:
            folder: The start of the keys: "" or a text with a slash at its end.
        """
        last = ""
        for info in self.list(folder):
            name, slash, _ = info.key[len(folder) :].partition("/")
            if not slash:
                yield info
            elif name != last:
                last = name
                yield f"{folder}{name}/"

    def uri(self, key: str) -> str:
        """Return the address that other programs, such as Spark, use for the object."""
        return f"{self.root}/{key}"

    def close(self) -> None:
        """Release connections. The call may be repeated."""
        return


class ObjectsWrapper(ObjectStore):
    """A store that forwards every call of the port to another one.

    A subclass replaces `_forward` for all calls that reach the objects, or single methods.
    """

    # `ObjectStore` documents the methods.
    # ruff: noqa: D102

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def _forward(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Make a call of the wrapped store, whose name is ``call.__name__``."""
        return call(*args, **named)

    @property
    def put_threads(self) -> int:  # type: ignore[override] # a class variable of each driver
        return self._store.put_threads

    @property
    def root(self) -> str:
        return self._store.root

    def local_file(self, key: str) -> Path | None:
        return self._store.local_file(key)

    def uri(self, key: str) -> str:
        return self._store.uri(key)

    def close(self) -> None:
        self._store.close()

    def put(self, key: str, body: Body) -> ObjectInfo:
        return self._forward(self._store.put, key, body)

    def put_if_absent(self, key: str, body: Body) -> bool:
        return self._forward(self._store.put_if_absent, key, body)

    def put_all_if_absent(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        return self._forward(self._store.put_all_if_absent, objects)

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        return self._forward(self._store.put_if_match, key, body, etag)

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        return self._forward(self._store.get, key, expected)

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        return self._forward(self._store.get_range, key, start, length, expected)

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        return self._forward(self._store.open, key, expected)

    def head(self, key: str) -> ObjectInfo:
        return self._forward(self._store.head, key)

    def delete(self, key: str) -> bool:
        return self._forward(self._store.delete, key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self._forward(self._store.list, prefix, after=after)

    def level(self, folder: str = "") -> Iterator[ObjectInfo | str]:
        return self._forward(self._store.level, folder)


_LASTING = {*(EACCES, EEXIST, EINVAL, EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR, ENOTEMPTY, EPERM, 0)}
"""Errors of the operating system for which a repetition does not help."""


def local_failure(error: OSError, message: str) -> GravelerError:
    """Return the error for a local file of the caller: retryable if it may be different later.

    A landing file may not have arrived yet, and a network file system may not answer.
    """
    lasting = (error.errno or 0) in _LASTING
    return InvalidInputError(message) if lasting else RetryableError(message)


PIECE_BYTES = 1 << 20
"""The size of the pieces in which a driver copies a body: 1 MiB."""


def _opened(path: Path) -> BinaryIO:
    # does not wait for the writer of a pipe
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise InvalidInputError(
            f"{path} is a device or a pipe and not a file: if it ends, open it and give the stream"
        )
    return stream


def file_state(status: os.stat_result) -> tuple[int, int, int]:
    """Return what changes if a local file is written, unless it is written through a mapping."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class BodyReader:
    """Reads a body once, from start to end. It opens and closes a file on disk.

    A stream is read from its current position and stays open. Its errors pass unchanged, because
    the caller handles them.

    Attributes:
        size: Number of bytes read so far.
    """

    def __init__(self, body: Body, *, hashed: bool = True) -> None:
        self._body = body
        self._hashed = hashed
        self._stream: BinaryIO
        self._hash = sha256()
        self.size = 0

    @property
    def checksum(self) -> str:
        """``sha256:<hex>`` of the bytes read so far, or "" if it is not computed."""
        return f"sha256:{self._hash.hexdigest()}" if self._hashed else ""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end.

        Raises:
            InvalidInputError: The stream is closed, returns text, or is non-blocking and has no
                bytes, or the file cannot be read, or was changed since it was opened.
            RetryableError: The file is missing, or cannot be read now.
        """
        first = self._piece(size)
        if len(first) in {0, size}:
            return first
        # pipes and sockets return fewer bytes
        pieces = [first]
        missing = size - len(first)
        while missing and (piece := self._piece(missing)):
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def pieces(self, size: int = PIECE_BYTES) -> Iterator[bytes]:
        """Yield the body in pieces of `size` bytes. The last one may be shorter."""
        while piece := self.read(size):
            yield piece

    def _piece(self, size: int) -> bytes:
        try:
            piece: object = self._stream.read(size)
        except OSError as error:
            if not isinstance(self._body, Path):
                raise
            raise _unreadable(self._body, error) from error
        except ValueError as error:
            if not getattr(self._stream, "closed", False):
                raise
            raise InvalidInputError("the stream is closed: open it again") from error
        if not isinstance(piece, bytes):
            raise InvalidInputError(
                f"the stream gives {type(piece).__name__}, not bytes: open it in binary, blocking mode"
            )
        if self._hashed:
            self._hash.update(piece)
        self.size += len(piece)
        if not piece and isinstance(self._body, Path) and self._state() != self._opened:
            raise InvalidInputError(
                f"{self._body} was written while it was read: put it again when it is complete"
            )
        return piece

    def _state(self) -> tuple[int, int, int]:
        return file_state(os.fstat(self._stream.fileno()))

    def __enter__(self) -> Self:
        body = self._body
        if isinstance(body, Path):
            try:
                self._stream = _opened(body)
                self._opened = self._state()
            except OSError as error:
                raise _unreadable(body, error) from error
        elif isinstance(body, (bytes, bytearray, memoryview)):
            self._stream = io.BytesIO(bytes(body))  # bytes are shared, not copied
        elif hasattr(body, "read"):
            self._stream = body
        else:
            raise InvalidInputError(
                f"a body is bytes, a pathlib.Path or a binary stream, not {type(body).__name__}"
            )
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._body, Path):
            self._stream.close()


def _unreadable(file: Path, error: OSError) -> GravelerError:
    return local_failure(error, f"cannot read {file}: {error.strerror or error}")
