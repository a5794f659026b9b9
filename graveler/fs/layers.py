"""Text and compression above a file that is written.

Python's text files are closed when they are dropped, and compressors do not close the file below. The
classes of this module behave like the file itself: an exception that leaves the block discards it, and
a file that is dropped open is unfinished.
"""

from contextlib import suppress
from io import BufferedIOBase, TextIOWrapper
from typing import Any

from graveler.fs.file import GravelerFile


class CompressedFile(BufferedIOBase):
    """A compressed file that is written.

    Args:
        file: The file below.
        packer: The compressor, which writes to the file.
    """

    def __init__(self, file: GravelerFile, packer: Any) -> None:
        self._file = file
        self._packer = packer

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes."""
        return int(self._packer.write(data))

    def close(self) -> None:
        """Finish the file."""
        if not self._file.closed:
            self._end_packer()
            self._file.close()
        super().close()

    def discard(self) -> None:
        """Discard the file. Nothing is kept."""
        with suppress(Exception):
            self._end_packer()
        self._file.discard()

    def _end_packer(self) -> None:
        self._file._unclosable = True  # some compressors close the file below
        try:
            self._packer.close()
        finally:
            self._file._unclosable = False

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        if not self._file.closed:
            with suppress(Exception):
                self._end_packer()
            self._file.__del__()


class TextFile(TextIOWrapper):
    """A file of text."""

    def __exit__(self, *error: object) -> None:
        if error[0] is not None and self.writable():
            self.buffer.discard()  # type: ignore[attr-defined]  # one of the files of this package
        self.close()

    def __del__(self) -> None:
        with suppress(ValueError):  # it was detached
            if self.writable() and not self.buffer.closed:
                self.flush()
                self.buffer.__del__()  # type: ignore[attr-defined]
