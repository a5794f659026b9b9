"""Blocks in memory and on disk, bounded in bytes.

A block never changes, so a cached one is never out of date. Any number of processes may share the
folder. Its files are renamed into place and verified whenever they are read. A failure of the cache
is never an error for the caller.
"""

import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from threading import Lock

from graveler.base.forks import watch
from graveler.base.privacy import follow_group, make_folder
from graveler.keep.locators import Locator

_STALE_NS = 24 * 3600 * 10**9
_SCRATCH = "tmp"
_LOOKS = 16
_log = logging.getLogger(__name__)


class BlockCache:
    """Blocks that were read. Threads share it, and those that want one block read it once.

    Args:
        folder: The folder of the files. None keeps blocks only in memory.
    """

    def __init__(
        self, memory_bytes: int = 256 << 20, folder: Path | None = None, disk_bytes: int = 10 << 30
    ) -> None:
        self._max = memory_bytes
        self._disk = None if folder is None else BlockFolder(folder, disk_bytes)
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Replace what threads of the parent may have held, and count again."""
        self._lock = Lock()
        self._flights: dict[str, Future[bytes]] = {}
        self._bytes = sum(map(len, self._kept.values()))

    @property
    def damaged(self) -> int:
        """The number of damaged files that were found and removed."""
        return 0 if self._disk is None else self._disk.damaged

    def find(self, locator: Locator) -> bytes | None:
        """Return a block, or None if it is not cached."""
        with self._lock:
            content = self._kept.get(locator.digest)
            if content is not None:
                self._kept.move_to_end(locator.digest)
        if content is None and self._disk is not None:
            content = self._disk.load(locator.digest)
            if content is not None:
                self._hold(locator.digest, content)
        return content if content is None or len(content) == locator.size else None

    def get(self, locator: Locator, fetch: Callable[[], bytes]) -> bytes:
        """Return a block from here, or from `fetch`, which returns verified bytes."""
        name = str(locator)
        while True:
            with self._lock:
                flight = self._flights.get(name)
                if flight is None:
                    mine = self._flights[name] = Future()
                    break
            with suppress(CancelledError):  # that thread was interrupted
                return flight.result()
        try:
            content = self.find(locator)
            if content is None:
                content = fetch()
                self._hold(locator.digest, content)
                if self._disk is not None:
                    self._disk.save(locator.digest, content)
            mine.set_result(content)
        except Exception as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                self._flights.pop(name, None)
            mine.cancel()
        return content

    def _hold(self, digest: str, content: bytes) -> None:
        if len(content) > self._max:
            return
        with self._lock:
            self._bytes += len(content) - len(self._kept.pop(digest, b""))
            self._kept[digest] = content
            while self._bytes > self._max:
                self._bytes -= len(self._kept.popitem(last=False)[1])


class BlockFolder:
    """Blocks as files, ``<the first 3 digits>/<MD5>``.

    Each process reads the whole folder whenever it has added a sixteenth of the bound, or a block. So
    n processes together exceed the bound by at most n sixteenths, or n blocks.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._scratch = folder / _SCRATCH
        self._max = max_bytes
        self._room = 0  # bytes that are added before the next look
        self.damaged = 0
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock: a thread of the parent may have held it."""
        self._lock = Lock()

    def load(self, digest: str) -> bytes | None:
        """Return a verified block, or None if it is absent or damaged."""
        path = self._path(digest)
        with suppress(OSError):
            content = path.read_bytes()
            if Locator.of(content).digest == digest:
                with suppress(OSError):
                    os.utime(path)  # eviction is in the order of use
                return content
            self.damaged += 1
            _log.warning("cached block %s is damaged: it is read again from its servers", path)
            path.unlink()
        return None

    def save(self, digest: str, content: bytes) -> None:
        """Keep a verified block, if there is room for it."""
        if len(content) > self._max:
            return
        path = self._path(digest)
        try:
            make_folder(self._scratch)
            with self._lock:
                if len(content) > self._room:
                    self._make_room(len(content))
                self._room -= len(content)
            handle, name = tempfile.mkstemp(dir=self._scratch)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                make_folder(path.parent)
                follow_group(Path(name))
                Path(name).replace(path)
            finally:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            _log.info("block %s is not kept in the cache: %s", path, error)

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:3] / digest

    def _make_room(self, size: int) -> None:
        self._remove_stale()
        files = sorted(self._files())
        total = sum(length for _, length, _ in files)
        # a sixteenth more than needed, so that the next blocks fit without another look
        enough = self._max - size - self._max // _LOOKS
        while files and total > max(enough, 0):
            _, length, path = files.pop(0)
            Path(path).unlink(missing_ok=True)
            total -= length
        self._room = max(size, min(self._max - total, self._max // _LOOKS))

    def _files(self) -> Iterator[tuple[int, int, str]]:
        """Yield the time of the last use, the size and the path of each block."""
        for folder in os.scandir(self._folder):
            if folder.name != _SCRATCH and folder.is_dir():
                for file in os.scandir(folder):
                    with suppress(FileNotFoundError):  # evicted by another process
                        status = file.stat()
                        yield status.st_mtime_ns, status.st_size, file.path

    def _remove_stale(self) -> None:
        """Remove the files that killed processes left."""
        os.utime(self._scratch)  # gives the time of the clock that stamps the files
        now = self._scratch.stat().st_mtime_ns
        for file in os.scandir(self._scratch):
            with suppress(FileNotFoundError):
                if now - file.stat().st_mtime_ns > _STALE_NS:
                    Path(file.path).unlink(missing_ok=True)
