"""Forks a child that continues to run, while a thread holds the lock of a table: ``FOLDER``."""

import os
import signal
import sys
from pathlib import Path
from threading import Event, Thread

from graveler.committed.cache.disk_cache import DiskCache

NAME = "ab" * 32
holding, go = Event(), Event()


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def hold() -> None:
    with cache.single(NAME):
        holding.set()
        go.wait(30)


cache = DiskCache(Path(sys.argv[1]), 50_000)
thread = Thread(target=hold)
thread.start()
holding.wait(30)
waits = os.pipe()
before = descriptors()
child = os.fork()
if child == 0:
    os.write(waits[1], bytes([before - descriptors()]))
    signal.pause()
closed = os.read(waits[0], 1)
go.set()
thread.join()
signal.alarm(20)
with cache.single(NAME):
    os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
raise SystemExit(closed != b"\1")
