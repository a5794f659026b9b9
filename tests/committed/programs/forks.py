"""Forks a child while a thread is held in the middle of its work: ``lock|cache|writer FOLDER``."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread

from graveler.committed.cache.disk_cache import DiskCache
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.model import RangeInfo
from tests.committed.trees import WHOLE, new_store, record

NAME = "ab" * 32
within, go = Event(), Event()


def held() -> None:
    within.set()
    go.wait(30)


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Do the block while `work` is held, and let it end then."""
    thread = Thread(target=work)
    thread.start()
    within.wait(30)
    yield
    go.set()
    thread.join()


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def lock(folder: Path) -> None:
    """The child goes on, while the thread holds the lock of a table."""
    cache, waits = DiskCache(folder, 50_000), os.pipe()

    def hold() -> None:
        with cache.single(NAME):
            held()

    with beside(hold):
        before = descriptors()
        child = os.fork()
        if child == 0:
            os.write(waits[1], bytes([before - descriptors()]))
            signal.pause()
        closed = os.read(waits[0], 1)
    signal.alarm(20)
    with cache.single(NAME):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert closed == b"\1"


class Slow(DiskCache):
    def _entries(self):
        if current_thread() is not main_thread():
            held()
        return super()._entries()


def cache(folder: Path) -> None:
    """The child adds to the cache, while the thread lists the cache's files."""
    slow = Slow(folder, 50_000)
    with beside(lambda: slow.add("parent", b"table", b"")):
        child = os.fork()
        if child == 0:
            os._exit(0 if slow.add("child", b"table", b"") else 1)
        assert os.waitpid(child, 0)[1] == 0


def writer(_folder: Path) -> None:
    """The child ends at once, while the thread writes ranges."""
    ranges: list[RangeInfo] = []

    def write() -> None:
        with RangeWriter(new_store(), WHOLE) as writing:
            writing.add_all([record("a")])
            held()
            ranges.extend(writing.finish())

    with beside(write):
        child = os.fork()
        if child == 0:
            sys.exit()
        os.waitpid(child, 0)
    assert len(ranges) == 1


{"lock": lock, "cache": cache, "writer": writer}[sys.argv[1]](Path(sys.argv[2]))
