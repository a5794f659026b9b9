"""Forks a child that adds to the cache, while a thread lists the cache's files: ``FOLDER``."""

import os
import sys
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread

from graveler.committed.cache.disk_cache import DiskCache

listing, go = Event(), Event()


class Slow(DiskCache):
    def _entries(self):
        if current_thread() is not main_thread():
            listing.set()
            go.wait(30)
        return super()._entries()


cache = Slow(Path(sys.argv[1]), 50_000)
thread = Thread(target=cache.add, args=("parent", b"table", b""))
thread.start()
listing.wait(30)
child = os.fork()
if child == 0:
    os._exit(0 if cache.add("child", b"table", b"") else 1)
status = os.waitpid(child, 0)[1]
go.set()
thread.join()
raise SystemExit(status)
