"""A local file that is uploaded: the version that was opened, or an error."""

import os
import stat
from pathlib import Path
from threading import Event
from typing import Self

from graveler.objects.store import file_state
from graveler.objects.verified import new_hash

_HASHED_BYTES = 1 << 20


class SourceError(Exception):
    """A local file cannot be read."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class SourceFile:
    """A local file in the version that was opened.

    Attributes:
        size: Its size at the time of opening.
    """

    def __init__(self, path: Path, over: Event) -> None:
        self._path = path
        self._over = over

    def __enter__(self) -> Self:
        try:
            # does not wait if a pipe has replaced the file
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise SourceError(error) from error
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self._before = os.fstat(descriptor)
        self.size = self._before.st_size
        if not stat.S_ISREG(self._before.st_mode):
            self._file.close()
            raise SourceError(OSError(0, "it is no longer a file", str(self._path)))
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return the next bytes. If the file grows, return one byte more than its first size."""
        if self._over.is_set():
            raise SourceError(InterruptedError())
        try:
            return self._file.read(min(size, self.size + 1 - self._file.tell())) or b""
        except OSError as error:
            raise SourceError(error) from error

    def rewind(self) -> None:
        """Go to the start."""
        self._file.seek(0)

    def checksum(self, algorithm: str) -> str:
        """Return the checksum of the content, or "" if the algorithm is unknown."""
        digest = new_hash(algorithm)
        if digest is None:
            return ""
        while piece := self.read(_HASHED_BYTES):
            digest.update(piece)
        return f"{algorithm}:{digest.hexdigest()}"

    def is_as_it_was(self, taken: int) -> bool:
        """Return whether `taken` is the size of the file, and the file is unchanged."""
        same = file_state(self._before) == file_state(os.fstat(self._file.fileno()))
        return same and taken == self.size
