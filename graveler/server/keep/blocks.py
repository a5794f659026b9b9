"""Blocks as the bodies of answers."""

import re
import socket
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import BinaryIO

from graveler.errors import CorruptionError
from graveler.keep.transfers import PIECE_BYTES, Block
from graveler.server.messages import Body, ClientGoneError, HttpError, Piece

_LEAST_RATE = 256 << 10
"""The bytes in a second of a body, below which the request ends: it holds memory for a block."""
_PATIENCE_S = 20.0
_RANGE = re.compile(r"bytes=([0-9]{1,18})?-([0-9]{1,18})?")


class Pace:
    """The time that a block may take to come or to go."""

    def __init__(self) -> None:
        self._began = monotonic()

    def allows(self, size: int) -> bool:
        """Return whether the first `size` bytes did not take too long."""
        return monotonic() - self._began <= _PATIENCE_S + size / _LEAST_RATE


class PacedBody:
    """The body of a block, which ends the request if it comes too slowly."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._size = 0
        self._pace = Pace()

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill at most this memory; return with how many bytes, 0 at the end."""
        count = self._body.readinto(buffer)
        self._size += count
        if not self._pace.allows(self._size):
            raise HttpError(408, f"a block comes with at least {_LEAST_RATE} bytes a second")
        return count


class Length:
    """The length of a body that is not sent."""

    def __init__(self, length: int) -> None:
        self.length = length

    def send(self, connection: socket.socket, write: Callable[[Piece], None], /) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Do nothing."""


class BlockDownload:
    """Bytes of a block, from memory if they are verified, else from its file."""

    def __init__(self, block: Block, start: int, length: int) -> None:
        self.length = length
        self._block = block
        self._start = start

    def send(self, connection: socket.socket, write: Callable[[Piece], None], /) -> None:
        """Send the bytes, and close the block."""
        with closing(self._block) as block:
            if block.content is not None:
                pace = Pace()
                for at in range(0, self.length, PIECE_BYTES):
                    first = self._start + at
                    write(block.content[first : first + min(PIECE_BYTES, self.length - at)])
                    if not pace.allows(at + PIECE_BYTES):
                        raise ClientGoneError("the client takes the block too slowly")
            elif block.file is not None:
                sent = self._sent(block.file, connection, write)
                if sent < self.length:
                    raise CorruptionError(
                        f"a block of {block.size} bytes ends at byte {self._start + sent}"
                    )

    def _sent(
        self, file: BinaryIO, connection: socket.socket, write: Callable[[Piece], None]
    ) -> int:
        try:
            file.fileno()
        except OSError:
            file.seek(self._start)
            sent = 0
            while piece := file.read(min(PIECE_BYTES, self.length - sent)):
                write(piece)
                sent += len(piece)
            return sent
        return connection.sendfile(file, self._start, self.length) if self.length else 0

    def close(self) -> None:
        """Close the block without sending it."""
        self._block.close()


def part_of(wanted: str, size: int) -> tuple[int, int] | None:
    """Return start and length of what a header ``Range`` wants of a block; None for all of it."""
    found = _RANGE.fullmatch(wanted)
    if found is None or found[1] is found[2] is None:
        return None
    if found[1] is None:
        length = min(int(found[2]), size)
        start = size - length
    else:
        start = int(found[1])
        length = min(int(found[2]) + 1 if found[2] else size, size) - start
    if length <= 0:
        raise HttpError(416, f"Range: {wanted}: the block has {size} bytes")
    return start, length
