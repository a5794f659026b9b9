"""The object store port: whole immutable objects under text keys, below one root.

Durability: when a put returns, the object survives the death of process and machine
(memory driver: of neither). An object is there whole or not at all.

Concurrency: any number of threads and processes may share a root. Of several
``put_if_absent`` to one key, exactly one wins.

A driver reads the four kinds of body in one way: in pieces, hashed on the way.
"""

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, Self

from graveler.clock import unix_us
from graveler.errors import InvalidInputError, PreconditionFailedError

_ETAG: Final = "etag:"
_MTIME: Final = "mtime:"

Body = bytes | bytearray | memoryview | Path | BinaryIO
"""What can be stored: bytes, a file on disk, or an open binary stream (read to its end)."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What the store reports of an object without reading it.

    Attributes:
        key: Key below the store's root.
        size: Bytes.
        etag: Changes whenever the object does; opaque.
        mtime: When it was written, UTC.
        checksum: ``algorithm:hex`` of the content if the store has one for free, else "".
    """

    key: str
    size: int
    etag: str
    mtime: datetime
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a reader expects of an object; the reply with its bytes is checked against it.

    Attributes:
        size: Bytes; None if unknown.
        version: ``etag:<ETag>`` or ``mtime:<µs since 1970>``; "" if unknown.
    """

    size: int | None = None
    version: str = ""

    @property
    def etag(self) -> str:
        """The ETag, "" where the version is none."""
        return self.version.removeprefix(_ETAG) if self.version.startswith(_ETAG) else ""

    def check(self, uri: str, info: ObjectInfo) -> None:
        """Refuse an object that is another one.

        Raises:
            PreconditionFailedError: With what was found and what was expected.
        """
        if self.size is not None and info.size != self.size:
            raise PreconditionFailedError(f"{uri} has {info.size} bytes, not {self.size}")
        if self.version not in {"", version_of(info, self.version)}:
            version = version_of(info, self.version)
            raise PreconditionFailedError(f"{uri} is at {version}, not at {self.version}")


ANYTHING: Final = Expected()
"""Any state of the object is accepted."""


def version_of(info: ObjectInfo, like: str) -> str:
    """Return the version of an object, of the kind of another version: its ETag, or its time."""
    return f"{_ETAG}{info.etag}" if like.startswith(_ETAG) else f"{_MTIME}{unix_us(info.mtime)}"


MAX_KEY_BYTES: Final = 1024
"""Longest key, in UTF-8: what S3 takes, the prefix of the root included."""


_NO_NAMES: Final = frozenset({"", ".", ".."})


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


def check_key(key: str) -> None:
    """Refuse a key that some driver could not store, or that could lead out of its root.

    Raises:
        InvalidInputError: The message has the key and the fault.
    """
    if fault := _fault(key):
        raise InvalidInputError(f"{key!r} cannot be an object's key: {fault}")


def check_range(start: int, length: int) -> None:
    """Refuse a negative start or length: raise InvalidInputError."""
    if start < 0 or length < 0:
        raise InvalidInputError(f"{length} bytes from {start}: give numbers from 0")


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that UTF-8 cannot hold: raise InvalidInputError."""
    try:
        prefix.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{prefix!r} cannot be a prefix: UTF-8 cannot hold it") from error


def folder_of_prefix(prefix: str) -> str | None:
    """Return the folder that holds every key of `prefix` ("" is the root).

    None where no key can start so: ``a//b``, ``../``.
    """
    folder = prefix.rpartition("/")[0]
    if not folder:
        return None if prefix.startswith("/") else ""
    return None if _fault(folder) else folder


class ObjectStore(ABC):
    """Bytes under keys.

    Keys are relative, ``/``-separated, without empty, ``.`` or ``..`` parts, NUL or backslash;
    1 to 1024 bytes of UTF-8, the root's prefix included. Keys that every driver can
    hold are never the beginning of one another (``a`` and ``a/b``), because a folder cannot hold
    such keys, and their parts have fewer than 256 bytes. An invalid key raises InvalidInputError.

    A store may be pickled, with the credentials that it was given: the copy is opened in the process
    that unpickles it. A store in memory raises InvalidInputError.

    Attributes:
        put_threads: By how many threads many objects are put best; 0: several in one call, by the
            caller's own or by one thread beside it.
    """

    put_threads: ClassVar[int] = 4

    def local_file(self, key: str) -> Path | None:
        """Return the local file that holds the whole object, or None if the store has no local files.

        A file is replaced, never changed: a hard link to it keeps the earlier content. Whether
        the object exists is not checked.
        """
        return None

    @property
    @abstractmethod
    def root(self) -> str:
        """URI of the root, without a slash at the end: ``file:///lake/objects``, ``s3://b/p``."""

    @abstractmethod
    def put(self, key: str, body: Body) -> ObjectInfo:
        """Store the object, replacing an earlier one at the key."""

    @abstractmethod
    def put_if_absent(self, key: str, body: Body) -> bool:
        """Store the object unless the key is taken; return whether it was stored.

        Raises:
            OutcomeUnknownError: The replies were lost, or the disk failed at the last step;
                read the key to find the outcome.
        """

    def put_all_if_absent(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        """Do what :meth:`put_if_absent` does for each key and its bytes, in any order.

        All are durable when it returns. Where it raises, some may be stored.
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
            ObjectNotFoundError: Nothing at the key.
            PreconditionFailedError: The object differs from `expected`. The reply with the bytes shows
                it, without another request; the same holds for the two methods below.
        """

    @abstractmethod
    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        """Return up to `length` bytes from byte `start`; less only where the object ends."""

    @abstractmethod
    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        """Return a readable, seekable stream of the object; the caller closes it."""

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Return what is known of the object without its bytes."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; no error if it does not exist."""

    @abstractmethod
    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with `prefix`, in byte order of their keys.

        Those up to and including the key `after`, which need not be there, are left out.

        Objects stored or deleted meanwhile may be among them or not.

        Raises:
            InvalidInputError: Another program has put something there whose name cannot be a
                key: an error is better than a gap.
        """

    def level(self, folder: str = "") -> Iterator[ObjectInfo | str]:
        """Yield the objects directly in a folder, and the folders there as text that ends with '/'.

        Args:
            folder: Start of the keys: "" or with a slash at its end.
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
        """Give back connections; may be called twice."""
        return


PIECE_BYTES: Final = 1 << 20
"""What a driver holds of a body while it copies it: 1 MiB."""


class BodyReader:
    """Reads a body once, front to end; a file on disk is opened and closed here.

    A stream is read from where it stands and stays open. What it raises passes unchanged:
    it is the caller's own fault to handle.

    Attributes:
        size: Bytes read so far.
    """

    def __init__(self, body: Body, *, hashed: bool = True) -> None:
        self._body = body
        self._hashed = hashed
        self._stream: BinaryIO
        self._hash = sha256()
        self.size = 0

    @property
    def checksum(self) -> str:
        """``sha256:<hex>`` of what was read so far; "" if it is not computed."""
        return f"sha256:{self._hash.hexdigest()}" if self._hashed else ""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only at the end.

        Raises:
            InvalidInputError: The stream is closed, gives text, or nothing without having ended; or
                the file cannot be read.
        """
        first = self._piece(size)
        if len(first) in {0, size}:
            return first
        # pipes and sockets give what they have
        pieces = [first]
        missing = size - len(first)
        while missing and (piece := self._piece(missing)):
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def pieces(self, size: int = PIECE_BYTES) -> Iterator[bytes]:
        """Yield the body in pieces of `size` bytes, the last one shorter."""
        while piece := self.read(size):
            yield piece

    def _piece(self, size: int) -> bytes:
        try:
            piece: object = self._stream.read(size)
        except OSError as error:
            if not isinstance(self._body, Path):
                raise
            raise InvalidInputError(f"cannot read {self._body}: {error.strerror}") from error
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
        return piece

    def __enter__(self) -> Self:
        body = self._body
        if isinstance(body, Path):
            try:
                self._stream = body.open("rb")
            except OSError as error:
                raise InvalidInputError(f"cannot read {body}: {error.strerror}") from error
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
