"""Bytes of files, sent to clients."""

import socket
from collections.abc import Callable, Iterator
from threading import BoundedSemaphore
from typing import BinaryIO

from graveler.base.background import Threads
from graveler.errors import CorruptionError, ObjectNotFoundError, PreconditionFailedError
from graveler.model import Entry
from graveler.objects.verified import WRITTEN
from graveler.reads.files import open_unverified, refusal, verifier_of
from graveler.reads.stores import Stores
from graveler.server.messages import Piece

_PIECE_BYTES = 1 << 20
_SMALL_PIECE_BYTES = 1 << 15
_AHEAD = BoundedSemaphore(12)
"""So many downloads read ahead. Each holds two pieces and two threads, however slow its client is."""


class FileDownload:
    """Bytes of an open file; they can be sent once.

    A whole file is compared with its checksum while it is sent. If it differs, the last piece is
    not sent. One thread reads a piece while another one hashes the piece before, which is sent at
    the same time. While many are sent, one thread does all this, with small pieces. Only the size of
    a file is checked if a part of it is sent. A part of a local file of the lake goes to the socket
    without a copy. A linked file is copied, because it may be written before the kernel has sent it.
    """

    def __init__(self, stores: Stores, entry: Entry, start: int, length: int) -> None:
        self.length = length
        self._start = start
        self._stores = stores
        self._entry = entry
        whole = start == 0 and length == entry.size
        self._verifier = verifier_of(stores, entry) if whole else None
        try:
            self._file = open_unverified(stores, entry)
        except ObjectNotFoundError as error:  # a client would read it as "no such path"
            raise CorruptionError(str(error)) from error
        linked = "://" in entry.address
        self._copied = whole or linked or not length or not _is_local(self._file)

    def send(self, connection: socket.socket, write: Callable[[Piece], None]) -> None:
        """Send the bytes by the socket, or by what writes to it, and close the file."""
        with self._file as file:
            if not self._copied:
                self._check(connection.sendfile(file, self._start, self.length))
                return
            if self._start:
                file.seek(self._start)
            ahead = _AHEAD.acquire(blocking=False)
            try:
                for piece in self._ahead(file) if ahead else self._in_turn(file):
                    write(piece)
            except PreconditionFailedError as error:
                raise self._refusal(*WRITTEN) from error
            finally:
                if ahead:
                    _AHEAD.release()

    def close(self) -> None:
        """Close the file without sending it."""
        self._file.close()

    def _ahead(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield pieces; while the caller sends one, it is hashed and the next one is read."""
        feed = _nothing if self._verifier is None else self._verifier.feed
        at = 0

        def read() -> bytes:
            return file.read(min(self.length - at, _PIECE_BYTES))

        with Threads(2) as threads:
            coming, hashed = threads.submit(read), threads.submit(_nothing, 0, b"")
            while piece := coming.result():
                at += len(piece)
                coming = threads.submit(read)
                hashed.result()
                hashed = threads.submit(feed, at - len(piece), piece)
                if at == self.length:
                    hashed.result()
                yield piece
        self._check(at)

    def _in_turn(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield pieces, each after it was read and hashed."""
        at = 0
        while piece := file.read(min(self.length - at, _SMALL_PIECE_BYTES)):
            if self._verifier is not None:
                self._verifier.feed(at, piece)
            at += len(piece)
            yield piece
        self._check(at)

    def _check(self, sent: int) -> None:
        """Refuse a file that has become shorter since it was opened."""
        if sent < self.length:
            raise self._refusal(f"{self._start + sent} bytes", f"{self._entry.size} bytes")

    def _refusal(self, actual: str, wanted: str) -> CorruptionError:
        return refusal(self._stores.uri(self._entry.address), self._entry, actual, wanted)


def _nothing(_start: int, _piece: bytes) -> None:
    pass


def _is_local(file: BinaryIO) -> bool:
    try:
        return file.fileno() >= 0
    except OSError:
        return False
