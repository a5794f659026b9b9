"""An open file: read through fsspec's block cache, or written and made visible by its close."""

import errno
import inspect
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, cast

from fsspec.compression import compr
from fsspec.spec import AbstractBufferedFile

from graveler.fs.address import Address, translated
from graveler.model import Entry
from graveler.reads.files import read_range, verifier_of
from graveler.repository.writes import unfinished

_IN_MEMORY_BYTES = 16 << 20


class GravelerFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file of a tree.

    Reading: the file shows the version that was opened, even if its path is written meanwhile.
    Writing: the file is not visible before ``close``. If an exception leaves the ``with`` block,
    nothing is kept. A file that is open, or dropped open with or without a wrapper of `io`, or closed by
    ``__del__`` or while an exception is handled, and these are newer than its opening, is unfinished
    (``graveler.repository.writes.unfinished``).
    """

    fs: Any  # a GravelerFileSystem, whose module imports this one

    def __init__(
        self,
        fs: Any,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = "default",
        autocommit: bool = True,
        packing: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._spool: BinaryIO | None = None
        self._before: Entry | None = None
        self._older = [*_handled()]
        self._removals = _removals()
        self._packing = packing
        self._dropped = self._closing = False
        entry = fs.entry(path) if mode == "rb" else None
        if entry is not None:
            self._entry = entry
            with translated(path):
                self._verifier = verifier_of(fs.stores_of(path), entry)
            kwargs["size"] = entry.size
        try:
            super().__init__(fs, path, mode, block_size, autocommit, **kwargs)
            if mode != "rb":
                self._begin()
        except BaseException:
            self.discard()
            raise

    def _begin(self) -> None:
        """Check that the file may be written, before bytes are written."""
        self._place = self.fs.check_writable(self.path)
        self._spool = cast("BinaryIO", tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES))
        if self.mode == "xb" and self.fs.exists(self.path):
            raise FileExistsError(errno.EEXIST, "there is a file", self.path)
        if self.mode == "ab":
            self._before = self._current()
            if self._before is not None:
                with self.fs.open(self.path, "rb", compression=self._packing) as before:
                    copyfileobj(before, self._spool)
                self.loc = self._spool.tell()
        unfinished.begin(self._place, Address.parse(self.path).path, self)

    def _current(self) -> Entry | None:
        try:
            entry: Entry = self.fs.entry(self.path)
        except FileNotFoundError:
            return None
        return entry

    @property
    def details(self) -> Any:
        """The result of ``info`` at the time of opening."""
        if self.mode == "rb":
            return self.fs.info_of(self.path, self._entry)
        return self.fs.info(self.path)

    def _fetch_range(self, start: int, end: int) -> bytes:
        with translated(self.path):
            piece = read_range(self.fs.stores_of(self.path), self._entry, start, end - start)
            self._verifier.feed(start, piece)
        return piece

    def _upload_chunk(self, final: bool = False) -> bool:
        spool = self._spool
        if spool is None:
            raise ValueError(f"{self.path} was discarded")
        spool.write(self.buffer.getvalue())
        if final:
            self._finish(spool)
        return True

    def _finish(self, spool: BinaryIO) -> None:
        """Store the bytes and make the file visible. A transaction does so at its end."""
        current = self._current() if self.mode in {"xb", "ab"} else None
        if self.mode == "xb" and current is not None:
            raise FileExistsError(errno.EEXIST, "there is a file by now", self.path)
        if self.mode == "ab" and current != self._before:
            raise BlockingIOError(
                errno.EAGAIN, "another writer changed the file during the append", self.path
            )
        spool.seek(0)
        if self._packing is None:
            self.fs.write_stream(self.path, spool)
            return
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder, "packed")
            with packed.open("wb") as raw, compr[self._packing](raw, mode="wb") as packer:
                copyfileobj(spool, packer)
            self.fs.write_stream(self.path, packed)

    def flush(self, force: bool = False) -> None:
        """Write buffered bytes. The file becomes visible when it is closed."""
        if not self.closed:
            super().flush(force and self._closing)

    def close(self) -> None:
        """Finish the file, unless it or its writer is dropped, or a newer exception is handled."""
        self._dropped |= _removals() > self._removals
        error = sys.exception()
        newer = error is not None and not any(error is each for each in self._older)
        if self.mode == "rb" or not (newer or self._dropped):
            self.accept()
        elif not self.closed:
            self._leave()

    def accept(self) -> None:
        """Finish the file, whatever exception is handled, or although it was left unfinished."""
        if self._spool is not None:
            self.closed = False
            self._forget()
        self._closing = True
        try:
            super().close()
        finally:
            self._end()

    def discard(self) -> None:
        """Discard the file. Nothing is kept."""
        self.closed = True
        self._end()

    def _leave(self) -> None:
        self.closed = True
        unfinished.leave(self._place, Address.parse(self.path).path, self)
        if self._dropped:
            warnings.warn(
                f"{self.path} was never closed, so it is not staged",
                ResourceWarning,
                stacklevel=3,
                source=self,
            )

    def commit(self) -> None:
        """Do nothing. The transaction commits all of its files at once."""

    def _end(self) -> None:
        self._older.clear()
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()
            self._forget()

    def _forget(self) -> None:
        unfinished.end(self._place, Address.parse(self.path).path, self)

    def __enter__(self) -> "GravelerFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.mode != "rb":
            self.discard()
        else:
            self.close()

    def __del__(self) -> None:
        if not self.closed:
            self.close()

    def _dealloc_warn(self, _: object = None) -> None:
        """Note that the file is dropped. `io` calls this before it closes a dropped wrapper."""
        self._dropped = True


class TextFile(TextIOWrapper):
    """A file of text that is written."""

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self.buffer.discard()  # type: ignore[attr-defined]  # a GravelerFile
        self.close()


def _handled() -> Iterator[BaseException]:
    error = sys.exception()
    while error is not None:
        yield error
        error = error.__context__


def _removals() -> int:
    frames = traceback.walk_stack(inspect.currentframe())
    return sum(frame.f_code.co_name == "__del__" for frame, _ in frames)
