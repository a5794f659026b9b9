"""Volumes of all drivers, and blocks, for the tests of Keep."""

import fcntl
import os
import re
from contextlib import contextmanager
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Any

from graveler.keep.volumes.folder import FolderVolume
from graveler.keep.volumes.memory import MemoryVolume
from graveler.keep.volumes.sealed import SealedVolume
from graveler.keep.volumes.volume import PLAIN, Role, Volume

KEYS = {"2025": b"a" * 32, "2026": b"b" * 32}
DRIVERS = ("memory", "folder", "sealed-memory", "sealed-folder")
_TWIN = (
    "0e306561559aa787d00bc6f70bbdfe3404cf03659e704f8534c00ffb659c4c8740cc942feb2da115a3f4155cbb860749"
    "7386656d7d1f34a42059d78f5a8dd1ef"
)
TWINS = (
    bytes.fromhex(_TWIN),
    bytes.fromhex(_TWIN.replace("659e704f85", "659e744f85").replace("f4155cbb86", "f415dcbb86")),
)
"""Two blocks with one MD5."""


def digest(content):
    return md5(content, usedforsecurity=False).hexdigest()


def uuid(name):
    """Return the UUID of a volume whose last characters are a name."""
    return f"zzzzz-nyw5e-{name:0>15}"


def role(*classes, **fields):
    return Role(classes=frozenset(classes or PLAIN.classes), **fields)


def made(kind, folder: Path, clock, name="1", role=PLAIN):
    """Return an open volume. One of a folder finds the blocks that are there."""
    volume: Volume
    if kind.endswith("memory"):
        volume = MemoryVolume(uuid(name), clock=clock, role=role)
    else:
        if not (folder / name / ".keep-volume").exists():
            FolderVolume.create(folder / name, uuid=uuid(name))
        volume = FolderVolume(folder / name, clock=clock, role=role)
    return SealedVolume(volume, KEYS) if kind.startswith("sealed") else volume


def content(volume, name):
    """Return the bytes of a copy."""
    with volume.open(name) as opened:
        found = b"".join(iter(lambda: opened.file.read(1 << 20), b""))
    assert len(found) == opened.size
    return found


class Crash(BaseException):
    """The end of a process: nothing that it would do afterwards happens."""


class Calls:
    """The system calls that change a folder volume: recorded, and struck at one of them.

    Attributes:
        made: The calls of `record`, each with the name of its file.
    """

    _NAMES = ("write", "fdatasync", "fsync", "utime", "rename", "unlink", "link", "mkdir", "open")

    def __init__(self, patch):
        self.made = []
        self._strike: Any = None
        self._waits = False
        self._locks = set()
        self._dead = False
        self._left = set()
        self._close = os.close
        for name in (*self._NAMES, "close"):
            patch.setattr(os, name, partial(self._call, name, getattr(os, name)))
        patch.setattr(fcntl, "flock", partial(self._flock, fcntl.flock))

    @contextmanager
    def record(self, strike=None, *, waits=False):
        """Record the calls of the block. `strike` gets the number of each call, and the call.

        Args:
            waits: Whether a wait for a lock is a call too.
        """
        self.made, self._strike, self._waits = [], strike, waits
        try:
            yield self.made
        finally:
            self._strike, self._dead = None, False
            self._locks.clear()

    @property
    def locked(self):
        """Whether another server would wait for a lock of this one."""
        return any(not _shown(each).endswith(".tmp") for each in self._locks)

    def crash(self, at, when):
        """Return a strike that ends the process before or after a call."""

        def strike(number, call):
            if number != at:
                return call()
            if when == "after":
                call()
            self._dead = True
            raise Crash

        return strike

    def close_left(self):
        """Close what a dead process has left open, as the system does."""
        while self._left:
            self._close(self._left.pop())

    def _call(self, name, original, *given, **named):
        if self._strike is None:
            return original(*given, **named)
        if self._dead:
            raise Crash

        def call():
            result = original(*given, **named)
            if name == "open" and given[1] & (os.O_CREAT | os.O_DIRECTORY):
                self._left.add(result)  # others belong to objects, which close them
            if name == "close":
                self._left.discard(given[0])
                self._locks.discard(given[0])
            return result

        if name == "close" or (name == "open" and not given[1] & os.O_CREAT):
            return call()
        return self._struck(name, given[0], call)

    def _struck(self, name, target, call):
        self.made.append((name, _shown(target)))
        return self._strike(len(self.made) - 1, call)

    def _flock(self, original, descriptor, how):
        if self._dead:
            raise Crash

        def call():
            original(descriptor, how)
            if self._strike is not None:
                self._left.add(descriptor)
                (self._locks.discard if how == fcntl.LOCK_UN else self._locks.add)(descriptor)

        if self._strike is None or not self._waits or how != fcntl.LOCK_EX:
            return call()
        return self._struck("flock", descriptor, call)


def do(_number, call):
    """Make a call that is recorded only."""
    return call()


def _shown(target):
    path = (
        str(Path(f"/proc/self/fd/{target}").readlink()) if isinstance(target, int) else str(target)
    )
    return re.sub(r"\.tmp\.[0-9a-f]{32}", ".tmp", path.rpartition("/")[2])
