"""The file that a table is written into before it is published.

RocksDB makes each file durable and drops it from the page cache when it ends it. Both are
for nothing here, where the object store keeps its own durable copy; and they are most of
what a small table costs. So tables are written into memory where the system has files
there, a few at a time, and into a scratch folder where not.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from graveler.committed.range_cache import RangeCache

_MOST_IN_MEMORY: Final = 10
"""Files at once: as many as are being put and written, see the publisher."""
_LARGEST_IN_MEMORY: Final = 64 << 20
_DESCRIPTORS: Final = Path("/proc/self/fd")


class TableFile:
    """One file; close it when it has been published or given up.

    Attributes:
        path: Where a writer writes to.
        on_disk: Whether it can be moved to another place on its disk.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.on_disk = descriptor is None
        self._descriptor = descriptor

    @property
    def closed(self) -> bool:
        """Whether it has given its memory back; a file on disk has none."""
        return self._descriptor is None

    def read(self) -> bytes:
        """Return all of it."""
        if self._descriptor is None:
            return self.path.read_bytes()
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)

    def close(self) -> None:
        """Remove it, unless it was moved away; may be called twice."""
        if self.on_disk:
            self.path.unlink(missing_ok=True)
        elif self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


class Scratch:
    """Where one writer has its files.

    Args:
        cache: Has the folder for those on disk.
        largest: Bytes that a file may come to have, about.
    """

    def __init__(self, cache: RangeCache, *, largest: int) -> None:
        self._cache = cache
        self._memory = largest <= _LARGEST_IN_MEMORY
        self._folder: Path | None = None
        self._files: list[TableFile] = []
        self._count = 0

    def file(self) -> TableFile:
        """Return a new file."""
        self._files = [file for file in self._files if not file.closed]
        file = self._in_memory() if len(self._files) < _MOST_IN_MEMORY else None
        if file is not None:
            self._files.append(file)
            return file
        if self._folder is None:
            self._folder = self._cache.scratch()
        self._count += 1
        return TableFile(self._folder / f"{self._count}.sst", None)

    def close(self) -> None:
        """Remove everything; may be called twice."""
        for file in self._files:
            file.close()
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _in_memory(self) -> TableFile | None:
        if not self._memory or not hasattr(os, "memfd_create"):
            return None
        try:
            descriptor = os.memfd_create("graveler-table", os.MFD_CLOEXEC)
        except OSError:
            return None
        path = _DESCRIPTORS / str(descriptor)
        if not path.exists():  # no /proc, as in some containers
            os.close(descriptor)
            return None
        return TableFile(path, descriptor)
