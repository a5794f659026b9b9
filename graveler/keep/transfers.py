"""Blocks in transfer: the memory that they may take, bodies, and copies that are read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import md5
from threading import Condition
from typing import Any, BinaryIO, Protocol

from graveler.base.background import Threads
from graveler.base.clock import from_unix_us
from graveler.errors import (
    ConflictError,
    CorruptionError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    ThrottledError,
)
from graveler.keep.locators import BLOCK_BYTES, Locator
from graveler.keep.volumes.volume import Volume, Writer, reading

PIECE_BYTES = 1 << 20
LARGE_BYTES = 4 << 20
"""The size from which a block is worth a thread."""


class Body(Protocol):
    """Bytes that can be read once."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill at most this memory; return with how many bytes, 0 at the end."""


class TooLargeError(InvalidInputError):
    """Cut the content: a block has at most 64 MiB."""


class Buffers:
    """Memory for `count` blocks of 64 MiB, or for more smaller ones.

    Buffers of 64 MiB are kept when they are free, because new memory begins with page faults.

    Args:
        wait_s: Seconds after which a caller that waits for memory is refused.
    """

    def __init__(self, count: int, wait_s: float) -> None:
        self.total = count * BLOCK_BYTES
        self.taken = 0
        self._free: list[bytearray] = []
        self._wait_s = wait_s
        self._changed = Condition()

    @contextmanager
    def reserve(
        self, size: int, *, reuse: bool = False, patient: bool = False
    ) -> Iterator[bytearray | None]:
        """Count memory of the caller. Yield a free buffer, if the caller wants one and one is kept.

        Args:
            patient: Whether the caller waits as long as it takes.
        """
        wait_s = None if patient else self._wait_s
        with self._changed:
            if not self._changed.wait_for(lambda: self.taken + size <= self.total, wait_s):
                raise ThrottledError(
                    f"all {self.total >> 20} MiB for blocks are in use: repeat later, or give the "
                    "server more buffers"
                )
            self.taken += size
            free = self._free.pop() if reuse and self._free else None
            if self.taken + len(self._free) * BLOCK_BYTES > self.total:
                self._free.pop()
        try:
            yield free
        finally:
            with self._changed:
                self.taken -= size
                self._changed.notify_all()

    @contextmanager
    def take(self, size: int) -> Iterator[memoryview]:
        """Yield memory of so many bytes. It is another caller's after the block."""
        with self.reserve(size, reuse=size == BLOCK_BYTES) as free:
            buffer = bytearray(size) if free is None else free
            yield memoryview(buffer)
            if size == BLOCK_BYTES:
                with self._changed:
                    self._free.append(buffer)


class Block:
    """A block that is read: verified `content`, or a `file` of the right size, which was not verified.

    The content is in a buffer of the store, which the next caller gets when this block is closed. The
    file of a folder has a descriptor. That of another volume has none: read it.
    """

    def __init__(
        self,
        size: int,
        content: memoryview | None,
        file: BinaryIO | None,
        close: Callable[[], object],
    ) -> None:
        self.size = size
        self.content = content
        self.file = file
        self.close = close

    def __enter__(self) -> "Block":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Ahead:
    """A copy that a thread writes while the body arrives."""

    def __init__(self, volume: Volume, writer: Writer, thread: Threads) -> None:
        self.volume = volume
        self._writer = writer
        self._thread = thread
        self._writes: list[Any] = []

    def write(self, piece: memoryview) -> None:
        """Let the thread write a piece, which stays in its memory."""
        self._writes.append(self._thread.submit(self._writer.write, piece))

    def commit(self) -> None:
        """Wait for the thread, and make the block durable."""
        for write in self._writes:
            write.result()
        self._writer.commit()


def receive(
    body: Body, buffer: memoryview, size: int | None, pass_on: Callable[[memoryview], None]
) -> tuple[memoryview, str]:
    """Read a body into memory. Return the part of the memory that it fills, and its MD5.

    Args:
        size: The most bytes that the body may have. A shorter one has another digest.
        pass_on: Gets the content in parts as it comes.
    """
    digest, at, passed = md5(usedforsecurity=False), 0, 0
    while count := body.readinto(buffer[at : at + PIECE_BYTES] or memoryview(bytearray(1))):
        if at == len(buffer):
            if size is None:
                raise TooLargeError(f"the body has more than {BLOCK_BYTES} bytes: cut it")
            raise InvalidInputError(f"the body has more bytes than the {size} announced")
        digest.update(buffer[at : at + count])
        at += count
        if at - passed >= LARGE_BYTES:
            pass_on(buffer[passed:at])
            passed = at
    pass_on(buffer[passed:at])
    return buffer[:at], digest.hexdigest()


@reading("read a block")
def read_hashed(file: BinaryIO, content: memoryview) -> str:
    """Fill memory from a file, and return the MD5 of it. A thread reads on meanwhile."""
    digest = md5(usedforsecurity=False)
    pieces = [content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES)]
    if len(content) < LARGE_BYTES:
        for piece in pieces:
            _fill(piece, file)
            digest.update(piece)
        return digest.hexdigest()
    with Threads(1, "graveler-keep-read") as thread:
        for piece, read in [(piece, thread.submit(_fill, piece, file)) for piece in pieces]:
            read.result()
            digest.update(piece)
    return digest.hexdigest()


@reading("read a block")
def digest_of(file: BinaryIO, pause: Callable[[int], None] = lambda _: None) -> str:
    """Return the MD5 of the rest of a file. `pause` is called with the size of each piece."""
    digest = md5(usedforsecurity=False)
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
        pause(len(piece))
    return digest.hexdigest()


def is_same(volume: Volume, digest: str, content: memoryview) -> bool:
    """Return whether the copy of a volume has this content. A right copy with other content raises ConflictError."""
    try:
        with reading("compare a block"), volume.open(digest) as opened:
            at, file = 0, opened.file
            while piece := file.read(PIECE_BYTES):
                if piece != bytes(content[at : at + len(piece)]):
                    break
                at += len(piece)
            if not piece and at == len(content):
                return True
            file.seek(0)
            found = digest_of(file)
    except CorruptionError:
        return False
    if found == digest:
        raise ConflictError(
            f"collision: block {digest} is there with other bytes of the same MD5; the new one was "
            "refused"
        )
    return False


def lacking(locator: Locator, volumes: Iterable[Volume] = ()) -> ObjectNotFoundError:
    """Return the error for a block that is not there, with the way out if one of the volumes has it in trash."""
    size = "" if locator.size is None else f" of {locator.size} bytes"
    text, kept = f"no volume of this server has block {locator.digest}{size}", 0
    for volume in volumes:
        with suppress(GravelerError):
            kept = max(kept, volume.in_trash(locator.digest))
    if kept:
        until = from_unix_us(kept * 10**6)
        text += (
            f"; in trash until {until:%Y-%m-%d %H:%M} UTC: `graveler keep untrash` brings it back"
        )
    return ObjectNotFoundError(text)


def _fill(content: memoryview, file: BinaryIO) -> None:
    while content:
        count = file.readinto(content)  # type: ignore[attr-defined]  # of all binary files
        if not count:
            raise CorruptionError("the file of a block is shorter than when it was opened")
        content = content[count:]
