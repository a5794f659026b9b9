"""Objects as files below a folder, shared by any number of processes of one machine.

A put writes a temporary file in ``.graveler-tmp``, makes it durable, and gives it its name
atomically. So a reader finds a whole object or none. A killed writer leaves a temporary file, which
a later writer removes. Other programs may read the files, and may add their own files.
"""

# `ObjectStore` documents the methods.
# ruff: noqa: D102

import errno
import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from graveler.base.background import Threads
from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock, unix_us
from graveler.base.local_files import (
    DurableFolders,
    beneath,
    claim,
    claimed,
    exclusive,
    inode_of,
    make_folders,
    prune_folders,
    storage_errors,
    write_all,
)
from graveler.base.privacy import PRIVATE_FILE, follow_group
from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
)
from graveler.objects.store import (
    ANYTHING,
    Body,
    BodyReader,
    Expected,
    ObjectInfo,
    ObjectStore,
    check_key,
    check_prefix,
    check_range,
    folder_of_prefix,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_TEMPORARY = ".graveler-tmp"
_ABANDONED_AFTER = timedelta(days=1)  # and only without an owner, because a clock can jump
_MAX_PART_BYTES = 255
_PUBLISH_TRIES = 100
_FLUSHERS = 8
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Staged:
    path: Path
    info: ObjectInfo
    descriptor: int


class LocalStore(ObjectStore):
    """Files below a folder, which the first put creates.

    The parts of a key are folders. So a key cannot be the beginning of another one (``a`` and
    ``a/b``), and a part has at most 255 bytes. The given clock sets the time of an object. Without
    `follow_links` no key names a symbolic link or leads through one, for folders that others write,
    and a read of a file that was written or removed since it was opened raises
    PreconditionFailedError.
    """

    put_threads: ClassVar[int] = 0

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        follow_links: bool = True,
    ) -> None:
        self._follow_links = follow_links
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        self._folder = Path(os.path.normpath(folder.absolute()))
        self._folders = DurableFolders(self._folder)
        self._temporary = self._folder / _TEMPORARY
        self._lock = self._temporary / "lock"
        self._cleared = False
        self._begun = False

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(LocalStore, follow_links=self._follow_links), (self._folder,)

    def close(self) -> None:
        self._folders.close()

    @property
    def root(self) -> str:
        return "file://" + str(self._folder).rstrip("/")

    def put(self, key: str, body: Body) -> ObjectInfo:
        path = self._path(key)
        with self._staged(key, body) as staged:
            self._move(path, lambda: self._replace(staged.path, path))
            self._sync(path)
            return staged.info

    def put_if_absent(self, key: str, body: Body) -> bool:
        return self.put_all_if_absent(((key, body),))[0]

    def put_all_if_absent(self, objects: Sequence[tuple[str, Body]]) -> list[bool]:
        # all files are written before any is made durable: a disk flushes many together faster
        paths = [self._path(key) for key, _ in objects]
        put = [False] * len(paths)
        with ExitStack() as stack:
            waiting: list[tuple[int, Path, _Staged]] = []
            for place, (path, (key, body)) in enumerate(zip(paths, objects, strict=True)):
                if not self._exists(path):
                    # the checksum is not needed
                    staged = stack.enter_context(self._staged(key, body, hashed=False, flush=False))
                    waiting.append((place, path, staged))
            _flush([(path, staged) for _, path, staged in waiting])
            for place, path, staged in waiting:
                put[place] = self._move(path, partial(_link, staged.path, path))
        # also for existing files: their writer may have died before the name was durable
        for path in {path.parent: path for path in paths}.values():
            self._sync(path)
        return put

    def put_if_match(self, key: str, body: Body, etag: str) -> ObjectInfo:
        path = self._path(key)
        with self._staged(key, body) as staged:
            self._move(path, lambda: self._replace(staged.path, path, etag))
            self._sync(path)
            return staged.info

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        with self.open(key, expected) as file, storage_errors(f"read {self.uri(key)}"):
            return file.read()

    def get_range(self, key: str, start: int, length: int, expected: Expected = ANYTHING) -> bytes:
        check_range(start, length)
        with self.open(key, expected) as file, storage_errors(f"read {self.uri(key)}"):
            file.seek(start)
            return file.read(length)

    def open(self, key: str, expected: Expected = ANYTHING) -> BinaryIO:
        uri = self.uri(key)
        with self._reading(key) as path:
            descriptor = self._open_file(path)
            try:
                # a pipe is refused, because reading it waits for a writer
                status = _status_of_file(os.fstat(descriptor))
                if expected != ANYTHING:
                    expected.check(uri, _info(key, status))
                if self._follow_links:
                    return os.fdopen(descriptor, "rb")
                return io.BufferedReader(_ForeignFile(descriptor, uri, status))
            except BaseException:
                os.close(descriptor)
                raise

    def head(self, key: str) -> ObjectInfo:
        with self._reading(key) as path:
            return _info(key, _status_of_file(self._stat(path)))

    def _stat(self, path: Path | str) -> os.stat_result:
        if self._follow_links:
            return os.stat(path)  # noqa: PTH116 - a Path for each file takes as long as the rest
        with beneath(self._folder, Path(path)) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def _open_file(self, path: Path) -> int:
        """Open a file or a pipe without waiting."""
        if self._follow_links:
            return os.open(path, _READING)
        with beneath(self._folder, path) as (folder, name):
            return os.open(name, _READING | os.O_NOFOLLOW, dir_fd=folder)

    def local_file(self, key: str) -> Path | None:
        return self._path(key)

    def delete(self, key: str) -> bool:
        path = self._path(key)
        if not self._exists(path):
            return False
        with storage_errors(f"delete {self.uri(key)}", writing=True):
            make_folders(self._temporary)
            with exclusive(self._lock), suppress(FileNotFoundError):
                path.unlink()
        prune_folders(path.parent, self._folder)
        return False

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        check_prefix(after)
        folder = folder_of_prefix(prefix)
        if folder is None or folder.partition("/")[0] == _TEMPORARY:
            return
        wanted, passed = prefix.encode(), after.encode()
        # with a slash after the names of folders, their byte order is that of the keys
        todo = [f"{folder}/".encode() if folder else b""]
        while todo:
            name = todo.pop()
            if name.endswith(b"/") or not name:
                todo += sorted(
                    (
                        child
                        for child in self._children(name)
                        if child.startswith(wanted)
                        and (child > passed or (child.endswith(b"/") and passed.startswith(child)))
                    ),
                    reverse=True,
                )
            elif (status := self._status(name)) is not None:
                yield _info(name.decode("utf-8", "surrogateescape"), status)

    def level(self, folder: str = "") -> Iterator[ObjectInfo | str]:
        check_prefix(folder)
        for child in sorted(self._children(folder.encode())):
            name = child.decode("utf-8", "surrogateescape")
            if child.endswith(b"/"):
                yield name
            elif (status := self._status(child)) is not None:
                yield _info(name, status)

    def _children(self, folder: bytes) -> Iterator[bytes]:
        with storage_errors(f"list {self.root}/{os.fsdecode(folder)}"):
            try:
                entries = os.scandir(os.fsencode(self._folder) + b"/" + folder)
            except (FileNotFoundError, NotADirectoryError):
                return
            with entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if folder or entry.name != _TEMPORARY.encode():
                            yield folder + entry.name + b"/"
                    elif (entry.is_symlink() and not self._follow_links) or _is_file(entry):
                        yield folder + entry.name

    def _status(self, name: bytes) -> os.stat_result | None:
        path = f"{self._folder}/{os.fsdecode(name)}"
        try:
            return self._stat(path)
        except FileNotFoundError:  # deleted meanwhile
            return None
        except OSError:
            if os.path.islink(path):  # noqa: PTH114 - as above
                return os.lstat(path)  # its reader gets this error
            with storage_errors(f"list file://{path}"):
                raise

    def _path(self, key: str) -> Path:
        check_key(key)
        if key.partition("/")[0] == _TEMPORARY:
            raise InvalidInputError(f"{key!r}: {_TEMPORARY} is kept for unfinished objects")
        if any(len(part.encode()) > _MAX_PART_BYTES for part in key.split("/")):
            raise InvalidInputError(
                f"{key!r} has a part of more than {_MAX_PART_BYTES} bytes, which no folder takes: "
                "choose a shorter one"
            )
        return self._folder / key

    def _exists(self, path: Path) -> bool:
        with storage_errors(f"look for file://{path}"):
            return path.is_file()

    @contextmanager
    def _reading(self, key: str) -> Iterator[Path]:
        path = self._path(key)
        with storage_errors(f"read {self.uri(key)}"):
            try:
                yield path
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
                raise ObjectNotFoundError(f"nothing at {self.uri(key)}") from error

    @contextmanager
    def _staged(
        self, key: str, body: Body, *, hashed: bool = True, flush: bool = True
    ) -> Iterator[_Staged]:
        """Write the body to a temporary file, durable with `flush`. The block's end removes it."""
        what = f"write {self.uri(key)}"
        with storage_errors(what, writing=True):
            if self._begun and not self._temporary.is_dir():
                raise BackendUnavailableError(
                    f"{what}: {self._temporary} was there and is gone: is the volume of "
                    f"{self._folder} not mounted any more, or was the folder moved? Nothing is "
                    "written until it is back or the lake is opened again"
                )
            make_folders(self._temporary)
            self._begun = True
        self._clear_abandoned()
        temporary = self._temporary / f"{self._ids.unique()}-{os.getpid()}-{get_ident()}"
        descriptor = None
        try:
            with BodyReader(body, hashed=hashed) as reader:
                with storage_errors(what, writing=True):
                    descriptor = os.open(
                        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE
                    )
                    follow_group(temporary)
                claim(descriptor)
                for piece in reader.pieces():
                    with storage_errors(what, writing=True):
                        write_all(descriptor, piece)
                with storage_errors(what, writing=True):
                    # The kernel's clock advances only every few milliseconds, so two versions of
                    # an object could get the same time. This clock is finer, and tests set it.
                    now = unix_us(self._clock.now()) * 1000
                    os.utime(descriptor, ns=(now, now))
                    if flush:
                        os.fsync(descriptor)
                    info = _info(key, os.fstat(descriptor), reader.checksum)
            yield _Staged(temporary, info, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _clear_abandoned(self) -> None:
        if self._cleared:
            return
        self._cleared = True
        deadline = self._clock.now() - _ABANDONED_AFTER
        with suppress(OSError):
            for path in self._temporary.iterdir():
                if path != self._lock and _written(path.stat()) < deadline and not claimed(path):
                    path.unlink()

    def _move(self, path: Path, move: Callable[[], bool]) -> bool:
        """Give the staged file its name by `move`. Return the result of `move`."""
        what = f"write file://{path}"
        for _ in range(_PUBLISH_TRIES):
            try:
                with storage_errors(what, writing=True):
                    try:
                        make_folders(path.parent)
                        moved = move()
                    except FileNotFoundError:
                        continue  # a delete has just removed the empty folder
            except BaseException:
                prune_folders(path.parent, self._folder)
                raise
            return moved
        raise BackendUnavailableError(
            f"{what}: another process keeps removing the folder or {self._temporary}; stop it and repeat"
        )

    def _replace(self, staged: Path, path: Path, etag: str | None = None) -> bool:
        # Every replacement or removal of an object holds the lock, so that no other write or
        # delete happens between the check of the etag and the rename.
        with exclusive(self._lock):
            if etag is not None:
                _check_etag(path, etag)
            staged.replace(path)
        return True

    def _sync(self, path: Path) -> None:
        try:
            self._folders.sync(path.parent)
        except FileNotFoundError:
            return  # deleted meanwhile, with its folder
        except OSError as error:
            raise OutcomeUnknownError(
                f"file://{path} is there, but may not survive a power cut ({error.strerror}): "
                "check the disk, and write it again"
            ) from error


def _flush(files: Sequence[tuple[Path, _Staged]]) -> None:
    """Make the content of files durable, side by side: a journal then writes several at once."""

    def flush(path: Path, staged: _Staged) -> None:
        with storage_errors(f"write file://{path}", writing=True):
            os.fsync(staged.descriptor)

    with Threads(_FLUSHERS, "graveler-flush") as pool:
        others = [pool.submit(partial(flush, *file)).result for file in files[1:]]
        for file in files[:1]:
            flush(*file)
        for result in others:
            result()


def _link(staged: Path, path: Path) -> bool:
    # unlike a rename, a hard link never replaces a file
    try:
        path.hardlink_to(staged)
    except FileExistsError:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "a folder has this name", str(path)) from None
        return False
    return True


def _check_etag(path: Path, etag: str) -> None:
    try:
        current = _etag(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        current = ""
    if current != etag:
        state = f"at {current}" if current else "gone"
        raise PreconditionFailedError(
            f"file://{path} is {state}, not at {etag}: read it again and repeat"
        )


class _ForeignFile(io.FileIO):
    """An open file that other programs may write. Each read checks that none has."""

    def __init__(self, descriptor: int, uri: str, opened: os.stat_result) -> None:
        super().__init__(descriptor)
        self._uri = uri
        self._state = _state(opened)

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        count = super().readinto(buffer)
        self._check()
        return count

    def readall(self) -> bytes:
        content = super().readall()
        self._check()
        return content

    def _check(self) -> None:
        # the kernel sets the times of a file before it writes the bytes
        if _state(os.fstat(self.fileno())) != self._state:
            raise PreconditionFailedError(f"{self._uri} was changed while it was read")


def _is_file(entry: "os.DirEntry[bytes]") -> bool:
    """Return whether an entry of a folder is a file, or a link that cannot be followed to its end."""
    try:
        return entry.is_file()
    except OSError:
        return entry.is_symlink()


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _status_of_file(status: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        raise IsADirectoryError  # a pipe or a device is not an object either
    return status


def _etag(status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return ""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _written(status: os.stat_result) -> datetime:
    return _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)


def _info(key: str, status: os.stat_result, checksum: str = "") -> ObjectInfo:
    written = _written(status)
    return ObjectInfo(key, status.st_size, _etag(status), written, checksum, inode_of(status))
