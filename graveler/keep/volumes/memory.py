"""A volume in memory, for tests and for caches."""

# `Volume` documents the methods.
# ruff: noqa: D102

import io
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.keep.volumes.volume import (
    PLAIN,
    Opened,
    Role,
    Space,
    Stored,
    Trashed,
    Volume,
    Writer,
    check_digest,
    check_prefix,
    missing,
    new_uuid,
)

_NS = 1_000_000_000
_UNBOUNDED = Space(1 << 60, 1 << 60)


class MemoryVolume(Volume):
    """Blocks in the memory of the process."""

    def __init__(
        self,
        uuid: str = "",
        *,
        role: Role = PLAIN,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        clock = clock or SystemClock()
        uuid = uuid or new_uuid(ids or RandomIds(clock))
        super().__init__(uuid, f"memory:{uuid}", role, clock)
        self._lock = RLock()
        self._blocks: dict[str, tuple[bytes, int]] = {}
        self._trash: list[tuple[int, str, bytes]] = []
        self._damaged: list[bytes] = []
        self._bookmark = ""

    def open(self, digest: str) -> Opened:
        with self._lock:
            content, mtime_ns = self._found(digest)
        return Opened(io.BytesIO(content), len(content), mtime_ns)

    def status(self, digest: str) -> Stored:
        with self._lock:
            content, mtime_ns = self._found(digest)
        return Stored(digest, len(content), mtime_ns)

    @contextmanager
    def writer(self, digest: str) -> Iterator[Writer]:
        yield _MemoryWriter(self, check_digest(digest))

    def place(self, digest: str, content: bytes) -> None:
        """Keep a block."""
        with self._lock:
            self._blocks[digest] = content, self.now_ns()

    def touch(self, digest: str) -> None:
        with self._lock:
            content, mtime_ns = self._found(digest)
            self._blocks[digest] = content, max(self.now_ns(), mtime_ns)

    def trash(self, digest: str, ttl: int, life: int, mtime_ns: int | None = None) -> Trashed:
        with self._lock:
            content, found_ns = self._found(digest)
            if mtime_ns not in {None, found_ns}:
                return Trashed.CHANGED
            now = self.now_ns()
            if now - found_ns < ttl * _NS:
                return Trashed.RECENT
            del self._blocks[digest]
            if life:
                self._trash.append((now + life * _NS, digest, content))
            return Trashed.DONE

    def untrash(self, digest: str) -> None:
        with self._lock:
            if check_digest(digest) in self._blocks:
                self.touch(digest)
                return
            trashed = [copy for copy in self._trash if copy[1] == digest]
            if not trashed:
                raise missing(digest, f"the trash of volume {self.uuid}")
            self._trash.remove(max(trashed))
            self._blocks[digest] = max(trashed)[2], self.now_ns()

    def in_trash(self, digest: str) -> int:
        with self._lock:
            return max((copy[0] // _NS for copy in self._trash if copy[1] == digest), default=0)

    def set_aside(self, digest: str, mtime_ns: int) -> bool:
        with self._lock:
            content, found_ns = self._found(digest)
            if found_ns != mtime_ns:
                return False
            del self._blocks[digest]
            self._damaged.append(content)
            return True

    def damaged(self) -> int:
        return len(self._damaged)

    def empty(self) -> int:
        with self._lock:
            now, before = self.now_ns(), len(self._trash)
            self._trash = [copy for copy in self._trash if copy[0] > now]
            return before - len(self._trash)

    def index(self, prefix: str = "", after: str = "") -> Iterator[Stored]:
        check_prefix(prefix)
        with self._lock:
            copies = sorted(self._blocks.items())
        for digest, (content, mtime_ns) in copies:
            if digest.startswith(prefix) and digest > after:
                yield Stored(digest, len(content), mtime_ns)

    def space(self) -> Space:
        return _UNBOUNDED

    def bookmark(self) -> str:
        return self._bookmark

    def set_bookmark(self, digest: str) -> None:
        self._bookmark = digest

    def _found(self, digest: str) -> tuple[bytes, int]:
        found = self._blocks.get(check_digest(digest))
        if found is None:
            raise missing(digest, f"volume {self.uuid}")
        return found


class _MemoryWriter(Writer):
    def __init__(self, volume: MemoryVolume, digest: str) -> None:
        self._volume = volume
        self._digest = digest
        self._content = bytearray()

    def write(self, piece: bytes | memoryview) -> None:
        self._content += piece

    def commit(self) -> None:
        self._volume.place(self._digest, bytes(self._content))
