"""A lake under a limit of file sizes: ``KV FOLDER``.

A process can set such a limit (RLIMIT_FSIZE) for itself. As the limit grows from zero, it hits
the database's log, its tables, objects and ranges, one after another.
"""

import logging
import resource
import shutil
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import graveler
from graveler.errors import GravelerError
from tests.harness.disk import OPERATIONS, looks, prepared, repeated

STEP = 4_000


@contextmanager
def bounded(size):
    """Limit all files to `size` bytes during a block."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def attempted(folder, operate, bound):
    """Run the operation under a limit that begins after the open; return its error or None."""
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        with bounded(bound):
            try:
                operate(repo)
            except GravelerError as error:
                return error
    return None


def strike(fresh, operate):
    """Raise the limit until the operation succeeds; return the errors."""
    folder = fresh()
    old, new = looks(folder), repeated(folder, operate)
    met: Counter[str] = Counter()
    for bound in count(0, STEP):
        folder = fresh()
        error = attempted(folder, operate, bound)
        seen = looks(folder)
        if error is None:
            assert seen == new
            return met
        assert seen in (old, new), (bound, seen)
        assert repeated(folder, operate) == new, bound
        met[type(error).__name__] += 1
    raise AssertionError


logging.disable()  # clean-ups fail, too
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[2])
kept = folder.with_name("kept")
shutil.copytree(prepared(folder, f"{sys.argv[1]}://kv"), kept)


def fresh():
    shutil.rmtree(folder)
    return shutil.copytree(kept, folder)


for name in ("put", "commit", "merge"):
    print(name, *sorted(strike(fresh, OPERATIONS[name])))
