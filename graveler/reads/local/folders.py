"""Folders of the local disk: walking them, and writing files into them atomically.

A file is written beside its place and renamed. A killed process leaves the part that it has
written, but its lock is released. So the next process that writes into the folder removes the part.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar
from urllib.parse import urlsplit

from graveler.base.names import check_path
from graveler.config import CONFIG_NAME, is_environment_lake, load_config
from graveler.errors import InvalidInputError, RetryableError
from graveler.objects.address import AddressBook
from graveler.objects.store import local_failure
from graveler.reads.stores import Stores

_PART = ".graveler-part-"
_MOST_KNOWN = 10_000
_LOCAL = "file://"
_DESCRIPTORS = re.compile(r"/proc/([0-9]+)(?:/task/[0-9]+)?/fd")
_MOST_LINKS = 40  # as Linux follows
_numbers = count(1)
_T = TypeVar("_T")


class Links(Enum):
    """What a walk does with a symbolic link."""

    FOLLOW = "follow"
    """The link represents its target."""
    LEAVE_OUT = "leave out"
    """The link is omitted."""
    LIST = "list"
    """The link is listed as a file, and so is a pipe, a socket or a device."""


class LocalFile(NamedTuple):
    """A file below a folder."""

    name: str
    path: Path


class Pattern:
    """A pattern of excluded names: those that match, and all names below a matching folder."""

    def __init__(self, globs: Iterable[str] = ()) -> None:
        self._globs = tuple(globs)

    def matches(self, name: str) -> bool:
        """Return whether a file or folder is excluded by its own name. Its parents do not count."""
        return any(name == glob or fnmatchcase(name, glob) for glob in self._globs)

    def leaves_out(self, name: str) -> bool:
        """Return whether a file, or a folder above it, is excluded."""
        if not self._globs:
            return False
        cuts = [at for at, letter in enumerate(name) if letter == "/"]
        return any(self.matches(name[:cut]) for cut in (*cuts, len(name)))


class _Folder(NamedTuple):
    device: int
    inode: int
    rest: Iterator[tuple[str, os.DirEntry[str]]]


def walk(
    root: Path,
    links: Links,
    exclude: Pattern,
    fault: Callable[[str, str], object],
    *,
    start: str = "",
    own: "OwnFiles | None" = None,
) -> Iterator[LocalFile]:
    """Yield the files below a folder, in byte order of their names.

    Only the entries of the current folders are in memory. A file that appears or vanishes meanwhile
    may be missing or included. Pipes, sockets and devices are omitted, unless links are listed.
    """
    follow = links is Links.FOLLOW
    open_folders = [_listed(root, start, fault, follow=follow)]
    while open_folders:
        folder = open_folders[-1]
        if folder is None or (item := next(folder.rest, None)) is None:
            open_folders.pop()
            continue
        name, entry = item
        if exclude.matches(name) or entry.name.startswith(_PART):
            continue
        if entry.is_symlink() and links is Links.LEAVE_OUT:
            continue
        if follow and own and entry.is_symlink() and own.meets(Path(entry.path)):
            fault(name, "the link leads to the lake's own files")
            continue
        if _is_folder(entry, follow=follow):
            below = _listed(Path(entry.path), f"{name}/", fault, follow=follow)
            if below is not None and any(
                (below.device, below.inode) == above[:2] for above in open_folders if above
            ):
                fault(name, "the link leads into a folder that it lies in")
            else:
                open_folders.append(below)
        elif links is Links.LIST or Path(entry.path).is_file():
            yield LocalFile(name, Path(entry.path))
        elif entry.is_symlink() and not Path(entry.path).exists():
            fault(name, "the link leads nowhere")


def _is_folder(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:  # a link to itself
        return False


def _listed(
    path: Path, start: str, fault: Callable[[str, str], object], *, follow: bool
) -> _Folder | None:
    def place(entry: os.DirEntry[str]) -> bytes:
        return os.fsencode(entry.name) + b"/" * _is_folder(entry, follow=follow)

    try:
        with os.scandir(path) as found:
            entries = sorted(found, key=place)
        status = path.stat()
    except OSError as error:
        failed = local_failure(error, f"the folder {str(path)!r} cannot be read: {error.strerror}")
        if isinstance(failed, RetryableError):
            raise failed from error
        fault(start.rstrip("/") or ".", f"the folder cannot be read: {error.strerror}")
        return None
    named = ((f"{start}{entry.name}", entry) for entry in entries)
    return _Folder(status.st_dev, status.st_ino, named)


class OwnFiles:
    """The lake's own files and folders on the local disk, under every path that leads to them.

    A folder that is mounted at two places is known by its inode.
    """

    def __init__(self, lake: Path, places: Iterable[Path]) -> None:
        self._lake = lake.resolve()
        self._places = tuple(place.resolve() for place in places)
        above = {folder for place in self._places for folder in (place, *place.parents)}
        self._known = {_identity(folder): folder for folder in above if _identity(folder)}
        self._near: dict[Path, tuple[Path, tuple[Path, ...]]] = {}

    def real(self, folder: Path) -> Path:
        """Return the path by which the lake's files would be found there."""
        folder = Path(os.path.realpath(folder))  # a link to itself stays
        for above in (folder, *folder.parents):
            if known := self._known.get(_identity(above)):
                return known / folder.relative_to(above)
        return folder

    def meets(self, place: Path) -> bool:
        """Return whether a file or folder is one of them, is in one or contains one."""
        real = self.real(place)
        return any(real.is_relative_to(own) or own.is_relative_to(real) for own in self._places)

    def check(self, target: Path) -> None:
        """Refuse to write or delete one of them. Every call that writes a local file asks."""
        if target.parent not in self._near:
            if len(self._near) >= _MOST_KNOWN:
                self._near.clear()
            folder = self.real(target.parent)
            self._near[target.parent] = (
                folder,
                tuple(
                    own
                    for own in self._places
                    if own.is_relative_to(folder) or folder.is_relative_to(own.parent)
                ),
            )
        folder, near = self._near[target.parent]
        real = folder / target.name
        for own in near:
            beside = folder == own.parent and target.name.startswith(f"{own.name}-")
            if beside or real.is_relative_to(own) or own.is_relative_to(real):
                raise InvalidInputError(
                    f"{target} is one of the lake's own files: write to another place; a download "
                    "leaves names out by exclude=…"
                )

    def check_apart(self, folder: Path, exclude: Pattern) -> None:
        """Refuse a folder that contains the lake's own files, or is inside one of its folders."""
        root = self.real(folder)
        for place in (self._lake, *self._places):
            inside = _identity(place) is not None and place.is_relative_to(root)
            name = place.relative_to(root).as_posix() if inside else ""
            if inside and not exclude.leaves_out(name):
                raise InvalidInputError(
                    f"{str(folder)!r} holds {place}, where the lake's own files are: choose another "
                    "folder, or leave them out (exclude=…)"
                )
        if any(root.is_relative_to(place) for place in self._places):
            raise InvalidInputError(
                f"{str(folder)!r} lies in the lake's storage: choose another folder"
            )


def _identity(place: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file or folder; None if it is out of reach."""
    with suppress(OSError):
        status = place.stat()
        return status.st_dev, status.st_ino
    return None


def lake_files(stores: Stores) -> OwnFiles:
    """Return the local files of a lake: those of its settings, and all its storages."""
    book = AddressBook(stores.storage)
    roots = [book.root, *(book.place(root) for _, root in stores.neighbours())]
    own = [Path(root.removeprefix(_LOCAL)) for root in roots if root.startswith(_LOCAL)]
    return OwnFiles(Path(stores.location), [*own, *_files_of_settings(stores.location)])


@lru_cache(maxsize=64)
def _files_of_settings(lake: str) -> tuple[Path, ...]:
    """Return the settings file of a lake, and the local files and folders that it names."""
    place = Path(lake)
    file = place / CONFIG_NAME if place.is_dir() else place
    if not (file.is_file() or is_environment_lake(lake)):
        return ()
    config = load_config(lake)
    parts = map(urlsplit, (config.kv_uri, config.storage_uri))
    found = [file, *(Path(part.path) for part in parts if part.path and not part.netloc)]
    found += [config.cache_folder] if config.cache_folder else []
    return tuple(each.resolve() for each in found)


def missing_from(keyed: Iterator[tuple[bytes, _T]], keys: Iterator[bytes]) -> Iterator[_T]:
    """Yield the items whose key is not in `keys`. Both are in byte order."""
    other = next(keys, None)
    for key, item in keyed:
        while other is not None and other < key:
            other = next(keys, None)
        if other != key:
            yield item


class Place:
    """A folder into which files are written. Nothing is written outside of it."""

    def __init__(self, root: Path, own: OwnFiles | None = None) -> None:
        self.root = root
        self._own = own
        self._known: set[str] = set()

    def of(self, name: str) -> Path:
        """Return the path for a file, and create the folders above it."""
        check_path(name)
        if self._own is not None:
            self._own.check(self.root / name)
        folder, at = self.root, -1
        self._enter("", folder)
        while (at := name.find("/", at + 1)) >= 0:
            folder = self.root / name[:at]
            self._enter(name[:at], folder)
        return self.root / name

    def _enter(self, name: str, folder: Path) -> None:
        if name in self._known:
            return
        if name and folder.is_symlink():
            real = folder.resolve()
            if not real.is_relative_to(self.root.resolve()):
                raise InvalidInputError(
                    f"{folder} is a link to {real}, which lies outside of {self.root}: remove the "
                    "link, or choose another folder"
                )
        folder.mkdir(parents=not name, exist_ok=True)
        remove_parts(folder)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(name)


def remove_parts(folder: Path) -> None:
    """Remove the parts that dead processes have left."""
    with os.scandir(folder) as found:
        parts = [Path(entry.path) for entry in found if entry.name.startswith(_PART)]
    for part in parts:
        with suppress(OSError):  # another process has it, or it is gone
            descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(descriptor)


def descriptor_of(place: Path) -> int | None:
    """Return the descriptor of this process that a path names, as /dev/stdout does, or None."""
    for _ in range(_MOST_LINKS):
        if not place.is_symlink():
            break
        if found := _DESCRIPTORS.fullmatch(str(place.parent.resolve())):
            if int(found[1]) != os.getpid():
                raise InvalidInputError(f"{place} is a descriptor of another process: name a file")
            return int(place.name)
        place = place.parent / place.readlink()
    return None


@contextmanager
def whole_file(place: Path) -> Iterator[BinaryIO]:
    """Yield a new file to write. It replaces `place` when the block ends without an error."""
    part, descriptor = _new_part(place.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            part.replace(place)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _new_part(folder: Path) -> tuple[Path, int]:
    while True:
        part = folder / f"{_PART}{os.getpid()}-{next(_numbers)}"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), part.stat()):
                return part, descriptor
        os.close(descriptor)  # another process removed it between the two calls above
