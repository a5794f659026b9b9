"""Files on a POSIX file system: durable folders, locks, errors."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graveler.base.forks import NO_DESCRIPTOR, held_off
from graveler.base.privacy import PRIVATE_FOLDER, follow_group, open_file
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    PermissionDeniedError,
    ReadOnlyError,
    StorageFullError,
)

_MOST_KNOWN = 8
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


def inode_of(status: os.stat_result) -> str:
    """Return the inode of a file and the time of its last change in ns, in hexadecimal."""
    return f"{status.st_ino:x}-{status.st_ctime_ns:x}"


@contextmanager
def storage_errors(what: str, *, writing: bool = False) -> Iterator[None]:
    """Turn an OSError of the block into an error that names the next step."""
    try:
        yield
    except GravelerError:
        raise  # some of graveler's errors are OSErrors
    except OSError as error:
        raise _translated(error, what, writing=writing) from error


def _translated(error: OSError, what: str, *, writing: bool) -> GravelerError:
    reason = f"{what}: {error.strerror or error}"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return StorageFullError(f"{reason}; free some space or raise the quota, and repeat")
        case errno.EACCES | errno.EPERM | errno.EROFS if writing:
            return ReadOnlyError(
                f"{reason}; user id {os.geteuid()} may only read there, or the disk is read-only: "
                "give this user the right to it, and repeat"
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return PermissionDeniedError(f"{reason}; give this user the right to it, and repeat")
        case errno.ENOTDIR | errno.EISDIR:
            return InvalidInputError(
                f"{reason}; in a folder a key cannot be the beginning of another: choose another key"
            )
        case errno.ENAMETOOLONG:
            return InvalidInputError(f"{reason}; choose a shorter name")
        case number:
            full = number in {errno.EMFILE, errno.ENFILE}
            advice = NO_DESCRIPTOR if full else "check the disk, and repeat"
            return BackendUnavailableError(f"{reason}; {advice}")


@contextmanager
def beneath(root: Path, file: Path) -> Iterator[tuple[int, str]]:
    """Yield the open folder of a file, and its name. A link below the root is refused.

    No folder above the file can be exchanged while the block opens the name in its folder.
    """
    *folders, name = file.relative_to(root).parts
    folder = os.open(root, _FOLDER)
    try:
        for part in folders:
            _refuse_link(part, folder, file)
            above = folder
            folder = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
        _refuse_link(name, folder, file)
        yield folder, name
    finally:
        os.close(folder)


def _refuse_link(name: str, folder: int, file: Path) -> None:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise PermissionDeniedError(
            f"file://{file}: {name!r} is a symbolic link, which is not followed below a declared place: "
            "put the file itself there, or link its target, in a declared place"
        )


def write_all(descriptor: int, piece: bytes | memoryview) -> None:
    """Write the whole piece. The kernel may need several calls."""
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Create the folder and those above it. All are durable on return."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(PRIVATE_FOLDER)
        follow_group(folder)
    sync_folder(folder.parent)
    if folder.is_file():
        raise NotADirectoryError(errno.ENOTDIR, "a file is where a folder should be", str(folder))


class _OpenFolder:
    """An open folder. As long as it is open, no other folder gets its inode."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = -1
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def is_at(self, path: Path) -> bool:
        """Return whether the path still names this folder."""
        return os.path.samestat(os.fstat(self._descriptor), path.stat())


class DurableFolders:
    """Folders below a root, and which of them are known to have durable names."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[Path, _OpenFolder] = {}

    def sync(self, folder: Path) -> None:
        """Make the names in `folder` durable, and those of the folders up to the root.

        Another process may have just created any of them and not synced it yet. Each sync flushes
        the disk. So a folder is skipped if this object has made its name durable before and the
        name still belongs to the same folder.
        """
        sync_folder(folder)
        known = self._known.get(folder)
        if folder == self._root or (known is not None and known.is_at(folder)):
            return
        held = _OpenFolder(folder)  # before the sync, so that a later replacement is detected
        self.sync(folder.parent)
        if known is not None or len(self._known) < _MOST_KNOWN:
            self._known[folder] = held

    def close(self) -> None:
        """Close the folders; they are opened again when they are needed."""
        self._known.clear()


def prune_folders(folder: Path, root: Path) -> None:
    """Remove `folder` and the folders above it, below `root`, as long as they are empty."""
    with suppress(OSError):
        while folder != root:
            with suppress(FileNotFoundError):  # not created yet, or removed already
                folder.rmdir()
            folder = folder.parent


def claim(descriptor: int) -> None:
    """Mark an open file as in use until it is closed or its process ends."""
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def claimed(path: Path) -> bool:
    """Return whether the file is in use."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Lock out every other thread and process of this machine by a lock file."""
    owner = os.getpid()
    with held_off:  # a child would have the lock as long as it lives, and would wait for itself
        descriptor = open_file(lock)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            if os.getpid() == owner:
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child may have it open even so
            os.close(descriptor)
