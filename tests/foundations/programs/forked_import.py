"""Forks while a thread reads for the first time and loads numpy or pyarrow; the child reads, too."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from threading import Event, Thread
from types import ModuleType

import graveler
from graveler.reads.view import View

importing = Event()


class Slow:
    """Delays the import of a module, and tells when it has begun."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing."""
        if name == self.name:
            importing.set()
            time.sleep(0.5)
        return None


READS = {
    "numpy": lambda view: view.stat_many(["a"] * 100),
    "pyarrow": lambda view: view.listing().read_all(),
}


def status_of_child(view: View, name: str) -> int:
    """Return the exit status of a child that reads: 0 is success, 14 is a hang."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            READS[name](view)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def main(folder: str, name: str) -> None:
    with graveler.init(folder) as lake:
        branch = lake.create_repository("flights").branch("main")
        branch.put("a", b"1")
        branch.commit("one")
        sys.meta_path.insert(0, Slow(name))
        thread = Thread(target=READS[name], args=(branch,))
        thread.start()
        assert importing.wait(10)
        print(status_of_child(branch, name))
        thread.join()


main(*sys.argv[1:])
