"""A volume in a folder.

A block is the file ``<3 digits>/<32 digits>``. Files beside it with the same beginning are its
temporary, trashed and damaged copies: ``docs/formats/keep-volumes.md``. No other name is touched.

Touch and trash lock the file of the block, and look at its time under the lock. So a put that
touches an older copy before it is acknowledged either finds it gone, or keeps it.
"""

# `Volume` documents the methods.
# ruff: noqa: D102

import errno
import fcntl
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.base.local_files import (
    claim,
    claimed,
    make_folders,
    storage_errors,
    sync_folder,
    write_all,
)
from graveler.base.privacy import PRIVATE_FILE, follow_group, make_folder
from graveler.base.records import Schema
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    OutcomeUnknownError,
    StorageFullError,
)
from graveler.keep.locators import BLOCK_BYTES
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
    check_uuid,
    missing,
    new_uuid,
)

_MARKER = ".keep-volume"
_BOOKMARK = ".keep-scrub"
_DAMAGED = ".keep-damaged"
_NS = 1_000_000_000
_ABANDONED_NS = 86_400 * _NS
_FOLDER_DIGITS = 3
_FOLDER = re.compile(rf"[0-9a-f]{{{_FOLDER_DIGITS}}}")
_BLOCK = re.compile(r"[0-9a-f]{32}")
_TRASHED = re.compile(r"([0-9a-f]{32})\.trash\.([0-9]{1,19})")
_TEMPORARY = re.compile(r"[0-9a-f]{32}\.tmp\.[0-9a-f]{32}")
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_SYNC_BYTES = 16 << 20
"""The disk writes so much of a block while the rest of it arrives."""
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CREATING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class _Marker:
    """What says that a folder is a volume: an empty folder, where none is mounted, is none."""

    uuid: str
    device: str
    system: str = ""


_MARKERS = Schema(_Marker, "the marker of a volume", sparse=("system",), states_format=True)


class FolderVolume(Volume):
    """Blocks as files below a folder, which `create` has made a volume.

    Args:
        reserve: The free bytes below which the volume is full.

    Attributes:
        system: The id of the system that it belongs to; "" for none yet.
    """

    def __init__(
        self,
        root: Path,
        *,
        role: Role = PLAIN,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        reserve: int = BLOCK_BYTES,
    ) -> None:
        clock = clock or SystemClock()
        self._root = _plain_root(root)
        self._marker = self._root / _MARKER
        self._ids = ids or RandomIds(clock)
        self._reserve = reserve
        self._durable: set[Path] = set()
        self._seen, marker = self._read_marker()
        super().__init__(marker.uuid, marker.device, role, clock)
        self.system = marker.system
        self._folders()

    @classmethod
    def create(cls, root: Path, *, uuid: str = "", ids: IdSource | None = None) -> str:
        """Make a folder a volume, and return its UUID. Blocks that it has become the volume's."""
        root = _plain_root(root)
        ids = ids or RandomIds()
        marker = _Marker(check_uuid(uuid or new_uuid(ids)), ids.unique())
        with storage_errors(f"create the volume {root}", writing=True):
            make_folders(root)
            if (root / _MARKER).exists():
                raise AlreadyExistsError(f"{root} is a volume already: open it")
            _replace(root / _MARKER, _MARKERS.encode(marker), ids)
        return marker.uuid

    def assign(self, system: str) -> None:
        """Note in the folder that the volume belongs to the system of this id."""
        self._check()
        if system != self.system:
            marker = _Marker(self.uuid, self.device, system)
            with storage_errors(f"write {self._marker}", writing=True):
                _replace(self._marker, _MARKERS.encode(marker), self._ids)
            self.system = system

    def open(self, digest: str) -> Opened:
        path = self._path(digest)
        with self._block("read", path, writing=False):
            descriptor = os.open(path, _READING)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise FileNotFoundError(errno.ENOENT, "not a file")
                file = io.FileIO(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        return Opened(file, status.st_size, status.st_mtime_ns)

    def status(self, digest: str) -> Stored:
        path = self._path(digest)
        with self._block("read", path, writing=False):
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a file")
        return Stored(digest, status.st_size, status.st_mtime_ns)

    @contextmanager
    def writer(self, digest: str) -> Iterator[Writer]:
        path = self._path(digest)
        self._check()
        with storage_errors(f"write {path}", writing=True):
            if self.space().free < self._reserve:
                raise StorageFullError(f"volume {self._root} is full: trash blocks, or add one")
            writer = _FolderWriter(self, path, self._temporary(path))
        try:
            yield writer
        finally:
            writer.close()

    def touch(self, digest: str) -> None:
        path = self._path(digest)
        self._check()
        with self._block("touch", path), _locked(path) as descriptor:
            self._touch(descriptor)
            sync_folder(path.parent)  # the name too: its writer may have died before

    def trash(self, digest: str, ttl: int, life: int, mtime_ns: int | None = None) -> Trashed:
        path = self._path(digest)
        self._check()
        with self._block("trash", path), _locked(path) as descriptor:
            found_ns = os.fstat(descriptor).st_mtime_ns
            if mtime_ns not in {None, found_ns}:
                return Trashed.CHANGED
            now = self.now_ns()
            if now - found_ns < ttl * _NS:
                return Trashed.RECENT
            if life:
                path.rename(_free_name(path, "trash", now // _NS + life))
            else:
                path.unlink()
        return Trashed.DONE

    def untrash(self, digest: str) -> None:
        path = self._path(digest)
        self._check()
        with self._block("untrash", path):
            if trashed := _trashed(path):
                copy = path.parent / max(trashed)[1]
                # if another call has restored it, or a new one is there, that one is touched
                with suppress(FileExistsError, FileNotFoundError), _locked(copy) as descriptor:
                    self._touch(descriptor)  # first: it may be trashed again at once
                    path.hardlink_to(copy)
                    copy.unlink()
                    sync_folder(path.parent)
                    return
        self.touch(digest)

    def in_trash(self, digest: str) -> int:
        path = self._path(digest)
        with self._block("look for the trash of", path, writing=False):
            return max(_trashed(path), default=(0, ""))[0]

    def set_aside(self, digest: str, mtime_ns: int) -> bool:
        path = self._path(digest)
        self._check()
        with self._block("set aside", path), _locked(path) as descriptor:
            if os.fstat(descriptor).st_mtime_ns != mtime_ns:
                return False
            make_folders(self._root / _DAMAGED)
            path.rename(_free_name(self._root / _DAMAGED / digest, "damaged", self.now_ns()))
            sync_folder(self._root / _DAMAGED)
            sync_folder(path.parent)
        return True

    def damaged(self) -> int:
        with storage_errors(f"list {self._root / _DAMAGED}"), suppress(FileNotFoundError):
            return len(_names(self._root / _DAMAGED))
        return 0

    def empty(self) -> int:
        self._check()
        count, now = 0, self.now_ns()
        for folder in self._folders():
            with storage_errors(f"empty the trash of {folder}", writing=True):
                for name in _names(folder):
                    match = _TRASHED.fullmatch(name)
                    if match is not None and int(match[2]) * _NS <= now:
                        with suppress(FileNotFoundError):
                            (folder / name).unlink()
                            count += 1
                    elif _TEMPORARY.fullmatch(name):
                        with suppress(FileNotFoundError):
                            _remove_abandoned(folder / name, now - _ABANDONED_NS)
        return count

    def index(self, prefix: str = "", after: str = "") -> Iterator[Stored]:
        check_prefix(prefix)
        self._check()
        for folder in self._folders():
            if folder.name.startswith(prefix[:_FOLDER_DIGITS]) and after < f"{folder.name}g":
                yield from self._listed(folder, max(prefix, folder.name, key=len), after)
        self._check()

    def space(self) -> Space:
        with storage_errors(f"look at the disk of {self._root}"):
            status = os.statvfs(self._root)
        return Space(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)

    def bookmark(self) -> str:
        with storage_errors(f"read {self._root / _BOOKMARK}"), suppress(FileNotFoundError):
            text = (self._root / _BOOKMARK).read_text("ascii", "replace")
            return text if _BLOCK.fullmatch(text) else ""
        return ""

    def set_bookmark(self, digest: str) -> None:
        self._check()
        with storage_errors(f"write {self._root / _BOOKMARK}", writing=True):
            _replace(self._root / _BOOKMARK, digest.encode(), self._ids)

    def settle(self, folder: Path) -> None:
        """Make the folder of a block durable. Its maker, if that was another process, may have died before."""
        if folder not in self._durable:
            sync_folder(self._root)
            self._durable.add(folder)

    def landed(self, path: Path) -> None:
        """Make the name of a written block durable."""
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise OutcomeUnknownError(
                f"{path} is there, but may not survive a power cut ({error.strerror}): check the "
                "disk, and write it again"
            ) from error
        self._check()

    def _path(self, digest: str) -> Path:
        check_digest(digest)
        return self._root.joinpath(digest[:_FOLDER_DIGITS], digest)

    def _temporary(self, path: Path) -> Path:
        """Return the path of a new temporary file. Its folder may not be durable yet."""
        folder = path.parent
        if not folder.is_dir():
            self._durable.discard(folder)
            make_folder(folder)
        return folder / f"{path.name}.tmp.{self._ids.unique()}"

    def _touch(self, descriptor: int) -> None:
        now = max(self.now_ns(), os.fstat(descriptor).st_mtime_ns)
        os.utime(descriptor, ns=(now, now))
        os.fsync(descriptor)  # its time too: after a power cut it would be as old as before

    def _folders(self) -> list[Path]:
        """Return the folders of blocks. A link to one is refused: only writers would follow it."""
        with storage_errors(f"list {self._root}"):
            names = sorted(name for name in _names(self._root) if _FOLDER.fullmatch(name))
            return [each for name in names if _plain(each := self._root / name).is_dir()]

    def _listed(self, folder: Path, prefix: str, after: str) -> list[Stored]:
        found = []
        with self._block("list", folder, writing=False), os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(prefix) and name > after and _BLOCK.fullmatch(name):
                    with suppress(FileNotFoundError):  # trashed meanwhile
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            found.append(Stored(name, status.st_size, status.st_mtime_ns))
        return sorted(found)

    @contextmanager
    def _block(self, what: str, path: Path, *, writing: bool = True) -> Iterator[None]:
        """Turn the errors of the system on a block into graveler's."""
        with storage_errors(f"{what} {path}", writing=writing):
            try:
                yield
            except OSError as error:
                if isinstance(error, GravelerError) or error.errno not in _ABSENT:
                    raise
                self._check()  # a volume that is not mounted does not lack the block
                raise missing(path.name, f"volume {self._root}") from None

    def _check(self) -> None:
        """Raise BackendUnavailableError if the folder is not the volume any more."""
        with suppress(OSError):
            if _state(os.lstat(self._marker)) == self._seen:
                return
        seen, marker = self._read_marker()
        if marker.uuid != self.uuid:
            raise BackendUnavailableError(
                f"{self._root} is volume {marker.uuid} now, not {self.uuid}: mount the right one"
            )
        self._seen = seen

    def _read_marker(self) -> tuple[tuple[int, int, int], _Marker]:
        path = self._marker
        try:
            with storage_errors(f"read {path}"):
                return _state(os.lstat(path)), _MARKERS.decode(path.read_bytes(), str(path))
        except (BackendUnavailableError, InvalidInputError) as error:
            raise BackendUnavailableError(
                f"{self._root} is no volume: mount its disk there, or, if the disk is lost, serve "
                f"another one (--new-disk); {error}"
            ) from error


class _FolderWriter(Writer):
    def __init__(self, volume: FolderVolume, path: Path, temporary: Path) -> None:
        self._volume = volume
        self._path = path
        self._temporary = temporary
        self._renamed = False
        self._unsynced = 0
        self._descriptor = os.open(temporary, _CREATING, PRIVATE_FILE)
        claim(self._descriptor)

    def write(self, piece: bytes | memoryview) -> None:
        with storage_errors(f"write {self._path}", writing=True):
            write_all(self._descriptor, piece)
            self._unsynced += len(piece)
            if self._unsynced >= _SYNC_BYTES:
                os.fdatasync(self._descriptor)
                self._unsynced = 0

    def commit(self) -> None:
        with storage_errors(f"write {self._path}", writing=True):
            follow_group(self._temporary)
            os.fdatasync(self._descriptor)
            self._volume.settle(self._path.parent)  # after the file: it finds less to write
            now = self._volume.now_ns()
            os.utime(self._descriptor, ns=(now, now))
            self._temporary.rename(self._path)
            self._renamed = True
        self._volume.landed(self._path)

    def close(self) -> None:
        if not self._renamed:
            with suppress(OSError):
                self._temporary.unlink()
        os.close(self._descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Lock a file, and yield its descriptor. Until the lock ends, no one else trashes or touches it."""
    while True:
        descriptor = os.open(path, _READING)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):  # else replaced meanwhile
                yield descriptor
                return
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may have it open
            os.close(descriptor)


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _trashed(path: Path) -> list[tuple[int, str]]:
    """Return until when each trashed copy of a block is kept, and its name."""
    matches = filter(None, map(_TRASHED.fullmatch, _names(path.parent)))
    return [(int(match[2]), match[0]) for match in matches if match[1] == path.name]


def _free_name(path: Path, kind: str, number: int) -> Path:
    while os.path.lexists(name := path.parent / f"{path.name}.{kind}.{number}"):
        number += 1
    return name


def _remove_abandoned(path: Path, before_ns: int) -> None:
    if os.lstat(path).st_mtime_ns < before_ns and not claimed(path):
        path.unlink()


def _replace(path: Path, content: bytes, ids: IdSource) -> None:
    """Write a small file, durable on return."""
    temporary = path.with_name(f"{path.name}.{ids.unique()}")
    descriptor = os.open(temporary, _CREATING, PRIVATE_FILE)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)
    sync_folder(path.parent)


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _plain_root(root: Path) -> Path:
    return _plain(Path(os.path.normpath(root.absolute())))


def _plain(folder: Path) -> Path:
    if folder.is_symlink():
        raise InvalidInputError(
            f"{folder} is a symbolic link, which may lead to another disk: use {folder.resolve()}"
        )
    return folder
