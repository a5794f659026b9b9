"""One way to read the four kinds of body: in pieces, hashed on the way."""

import io
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from graveler.errors import InvalidInputError
from graveler.objects.store import Body

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
        """``sha256:<hex>`` of what was read so far; "" where it is not computed."""
        return f"sha256:{self._hash.hexdigest()}" if self._hashed else ""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only at the end.

        Raises:
            InvalidInputError: The stream gives text, or nothing without having ended; or
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(self._body, Path):
            self._stream.close()
