"""Bytes of files, sent to clients."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Final

from graveler.model import Entry
from graveler.reads import Stores
from graveler.reads.files import open_entry, open_unverified

_PIECE_BYTES: Final = 1 << 20


class Download:
    """Bytes of a file, which is open; they can be sent once.

    A whole file is compared with its checksum on the way: if it differs, the last piece is not
    sent. A thread reads and hashes a piece while the piece before it is sent. What is read from elsewhere than the start is compared in its size alone, and goes from a
    local file to the socket without a copy.

    Args:
        stores: The repository.
        entry: The file.
        start: The first byte.
        length: Number of bytes.

    Attributes:
        length: As given.

    Raises:
        CorruptionError: The file has another size than its entry.
        ObjectNotFoundError: There is none.
    """

    def __init__(self, stores: Stores, entry: Entry, start: int, length: int) -> None:
        self.length = length
        self._start = start
        self._path = entry.path
        whole = start == 0 and length == entry.size
        self._file = (open_entry if whole else open_unverified)(stores, entry)
        self._copied = whole or not length or not _is_local(self._file)

    def send(self, connection: socket.socket, out: BinaryIO) -> None:
        """Send the bytes and close the file.

        Args:
            connection: The socket.
            out: The same, to write to.

        Raises:
            CorruptionError: The file differs from its entry.
        """
        with self._file as file:
            if not self._copied:
                connection.sendfile(file, self._start, self.length)
                return
            if self._start:
                file.seek(self._start)
            out.writelines(self._ahead(file))

    def _ahead(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield pieces; the next one is read meanwhile."""
        left = self.length
        with ThreadPoolExecutor(1) as thread:
            coming = thread.submit(file.read, min(left, _PIECE_BYTES))
            while piece := coming.result():
                left -= len(piece)
                coming = thread.submit(file.read, min(left, _PIECE_BYTES))
                yield piece
        if left:
            raise EOFError(f"{self._path!r} ended {left} bytes early")


def _is_local(file: BinaryIO) -> bool:
    try:
        return file.fileno() >= 0
    except OSError:
        return False
