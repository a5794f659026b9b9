"""Blocks as the bodies of answers."""

import re
import socket
from collections.abc import Callable
from contextlib import closing
from typing import BinaryIO

from graveler.errors import CorruptionError
from graveler.keep.transfers import PIECE_BYTES, Block
from graveler.server.messages import HttpError, Piece

_RANGE = re.compile(r"bytes=([0-9]{1,18})?-([0-9]{1,18})?")


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
                write(block.content[self._start : self._start + self.length])
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
