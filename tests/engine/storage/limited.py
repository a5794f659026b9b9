"""``python -m tests.engine.storage.limited KV FOLDER``: a lake whose files may not grow beyond a bound.

A bound on the size of files (RLIMIT_FSIZE) is what a process can give itself; on the way up
from nothing it strikes the database's log, its tables, objects and ranges, one after another.
"""

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

STEP = 2_500
TRIED = ("put", "commit", "merge")


@contextmanager
def bounded(size):
    """Let no file grow beyond `size` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def attempted(folder, operate, bound):
    """Do it under a bound, in a lake opened without one; return the error, or None."""
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        with bounded(bound):
            try:
                operate(repo)
            except GravelerError as error:
                return error
    return None


def strike(fresh, operate):
    """Do it under wider and wider bounds until it gets through; return the errors met."""
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


def main(kv, place):
    """Try every operation."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    folder = Path(place)
    kept = folder.with_name("kept")
    shutil.copytree(prepared(folder, f"{kv}://kv"), kept)

    def fresh():
        shutil.rmtree(folder)
        return shutil.copytree(kept, folder)

    for name in TRIED:
        met = strike(fresh, OPERATIONS[name])
        sys.stdout.write(f"{name} {' '.join(sorted(met))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
