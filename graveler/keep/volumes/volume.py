"""The port of volumes.

A volume keeps blocks by their digests. It does not verify them: the store does. A block is on disk
before a method returns. Each method raises ObjectNotFoundError if the volume lacks the block, and
BackendUnavailableError, ReadOnlyError or StorageFullError if the volume cannot do it.
"""

import errno
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, NamedTuple

from graveler.base.clock import Clock, IdSource, unix_us
from graveler.base.local_files import storage_errors
from graveler.errors import CorruptionError, InvalidInputError, ObjectNotFoundError

DEFAULT_CLASS = "default"
"""The storage class of a volume, and of a block, for which none is given."""

_DIGEST = re.compile(r"[0-9a-f]{32}")
_PREFIX = re.compile(r"[0-9a-f]{0,32}")
_UUID = re.compile(r"[0-9a-z]{5}-nyw5e-[0-9a-z]{15}")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_RANDOM = 15


class Stored(NamedTuple):
    """A copy of a block."""

    digest: str
    size: int
    mtime_ns: int


class Space(NamedTuple):
    """The bytes of a volume's disk."""

    free: int
    total: int


class Trashed(StrEnum):
    """What became of a copy that was to be trashed."""

    DONE = "done"
    RECENT = "recent"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Role:
    """What a volume is for.

    Attributes:
        replication: How many copies its disk makes of each block.
        classes: The storage classes that it provides.
    """

    read_only: bool = False
    replication: int = 1
    classes: frozenset[str] = frozenset({DEFAULT_CLASS})
    trash_while_read_only: bool = False


PLAIN = Role()
"""One copy of each block, written and read, of the default class."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open copy of a block.

    Attributes:
        file: Its content, from the first byte. It can seek. It has a descriptor only if the copy is a
            file with this content.
    """

    file: BinaryIO
    size: int
    mtime_ns: int

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


class Writer(ABC):
    """A block that is written piece by piece."""

    @abstractmethod
    def write(self, piece: bytes | memoryview) -> None:
        """Add the next piece."""

    @abstractmethod
    def commit(self) -> None:
        """Make the block durable, and visible in place of an older copy. Its time is now."""


class Volume(ABC):
    """Blocks by their digests. Threads may share it.

    Attributes:
        uuid: ``zzzzz-nyw5e-`` and 15 characters of a-z and 0-9.
        device: What keeps the bytes. Two volumes of one device have only one copy.
    """

    def __init__(self, uuid: str, device: str, role: Role, clock: Clock) -> None:
        self.uuid = uuid
        self.device = device
        self.role = role
        self.read_only = role.read_only
        self.replication = role.replication
        self.classes = role.classes
        self.trash_while_read_only = role.trash_while_read_only
        self.clock = clock

    @property
    def may_trash(self) -> bool:
        """Whether blocks may be trashed."""
        return not self.read_only or self.trash_while_read_only

    def now_ns(self) -> int:
        """Return the time in ns since 1970."""
        return 1000 * unix_us(self.clock.now())

    @abstractmethod
    def open(self, digest: str) -> Opened:
        """Open a copy for reading."""

    @abstractmethod
    def status(self, digest: str) -> Stored:
        """Return the size and the time of a copy."""

    @abstractmethod
    def writer(self, digest: str) -> AbstractContextManager[Writer]:
        """Begin to write a block. Without a commit, nothing of it is left after the block."""

    def put(self, digest: str, content: bytes | memoryview) -> None:
        """Write a block, in place of an older copy."""
        with self.writer(digest) as writer:
            writer.write(content)
            writer.commit()

    @abstractmethod
    def touch(self, digest: str) -> None:
        """Set the time of a copy to now, unless it is later: the clock may have been set back."""

    @abstractmethod
    def trash(self, digest: str, ttl: int, life: int, mtime_ns: int | None = None) -> Trashed:
        """Trash a copy that is at least `ttl` seconds old. It can be restored for `life` seconds.

        Args:
            mtime_ns: The time that the copy must have.
        """

    @abstractmethod
    def untrash(self, digest: str) -> None:
        """Restore the newest trashed copy. Its time is now. A copy that is there is touched."""

    @abstractmethod
    def in_trash(self, digest: str) -> int:
        """Return until when the newest trashed copy is kept, in seconds since 1970; 0 without one."""

    @abstractmethod
    def set_aside(self, digest: str, mtime_ns: int) -> bool:
        """Keep the bytes of a damaged copy under another name, unless its time is another one."""

    @abstractmethod
    def damaged(self) -> int:
        """Return how many copies are set aside."""

    @abstractmethod
    def empty(self) -> int:
        """Delete the trashed copies whose life is over, and return how many."""

    @abstractmethod
    def index(self, prefix: str = "", after: str = "") -> Iterator[Stored]:
        """Yield the copies with this prefix, behind the digest `after`, sorted by digest."""

    @abstractmethod
    def space(self) -> Space:
        """Return the free and all bytes."""

    @abstractmethod
    def bookmark(self) -> str:
        """Return the digest at which the scrub stopped, or ""."""

    @abstractmethod
    def set_bookmark(self, digest: str) -> None:
        """Remember the digest at which the scrub stopped."""

    def is_outdated(self, digest: str) -> bool:
        """Return whether a copy should be written again although it is right."""
        del digest
        return False


def new_uuid(ids: IdSource) -> str:
    """Return the UUID of a new volume."""
    number, digits = int(ids.unique(), 16), ""
    for _ in range(_RANDOM):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"zzzzz-nyw5e-{digits}"


def check_uuid(uuid: str) -> str:
    """Return the UUID of a volume, or raise InvalidInputError."""
    if not _UUID.fullmatch(uuid):
        raise InvalidInputError(f"uuid={uuid[:60]!r}: give one as {'zzzzz-nyw5e-' + 15 * '0'}")
    return uuid


def check_digest(digest: str) -> str:
    """Return a digest, or raise InvalidInputError."""
    if not _DIGEST.fullmatch(digest):
        raise InvalidInputError(f"{digest[:60]!r}: give 32 lower-case hexadecimal digits")
    return digest


def check_prefix(prefix: str) -> str:
    """Return the beginning of digests, or raise InvalidInputError."""
    if not _PREFIX.fullmatch(prefix):
        raise InvalidInputError(f"prefix={prefix[:60]!r}: give up to 32 hexadecimal digits")
    return prefix


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn the errors of reading a copy into graveler's. What the disk cannot read is damaged."""
    with storage_errors(what):
        try:
            yield
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise CorruptionError(f"{what}: {error.strerror}") from error


def missing(digest: str, where: str) -> ObjectNotFoundError:
    """Return the error for a block that is not there."""
    return ObjectNotFoundError(f"{where} has no block {digest}")
