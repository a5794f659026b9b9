"""Downloading a folder of a tree to a local folder: only files that differ, each one atomically."""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import BinaryIO
from unicodedata import normalize

from graveler.base.background import Progress
from graveler.base.globs import matches
from graveler.base.local_files import prune_folders
from graveler.base.parallel import Bounds, in_order
from graveler.errors import (
    CorruptionError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageFullError,
)
from graveler.model import Entry, Transfer
from graveler.objects.store import local_failure
from graveler.objects.verified import new_hash
from graveler.reads.listing import Scan, first_key
from graveler.reads.local.folders import (
    Links,
    OwnFiles,
    Pattern,
    Place,
    missing_from,
    walk,
    whole_file,
)
from graveler.values import decode_entry

PIECE_BYTES = 8 << 20
"""The size of the pieces in which a file is read: 8 MiB."""

_WINDOW = 1_000
_SHOWN = 5
_PROBE = "\N{LATIN CAPITAL LETTER A WITH DIAERESIS}"
MOST_FAULTS = 100
"""The number of failed files after which a call for many files ends."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_BLOCKED = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR})


@dataclass(frozen=True, slots=True)
class Source:
    """The tree that is downloaded, or its files that match the pattern `only`."""

    name: str
    folder: str
    snapshot: AbstractContextManager[Scan]
    get: Callable[[Entry], bytes]
    open: Callable[[Entry], BinaryIO]
    only: str = ""

    def has(self, name: str) -> bool:
        """Return whether a file below the folder is downloaded."""
        return not self.only or matches(self.only, self.folder + name)


_Job = tuple[Entry, Path | Exception]
"""A file to write, or why it has no place."""
_Done = tuple[Entry, bool | Exception]
"""A file, and whether it was written, or why not."""


def download(
    source: Source,
    root: Path,
    *,
    delete: bool,
    exclude: Pattern,
    threads: int,
    progress: Progress,
    own: OwnFiles,
) -> Transfer:
    """Write the files below a folder of a tree that differ from those of a local folder.

    The lake's own files are never written or deleted.
    """
    if root.exists() and not root.is_dir():
        raise InvalidInputError(f"{str(root)!r} is no folder")
    start = first_key(source.folder)
    with source.snapshot as scan:

        def entries() -> Iterator[tuple[str, Entry]]:
            for key, value in scan(start):
                name = key[len(start) :].decode()
                if source.has(name) and not exclude.leaves_out(name):
                    yield name, decode_entry(key, value, scan.origin)

        if source.folder and next(scan(start), None) is None:
            raise ObjectNotFoundError(f"nothing below {source.folder!r} in {source.name!r}")
        if source.only and next(entries(), None) is None:
            raise ObjectNotFoundError(f"no file matches {source.only!r} in {source.name!r}")
        _refuse_folded(root, (name for name, _ in entries()))
        mirror = _Mirror(root, scan, start, exclude, own) if delete else None
        files = _Files(source, Place(root, own), mirror)
        try:
            written = _written(files, entries(), threads, progress)
        except KeyboardInterrupt as error:
            error.add_note("download again to go on, the files that are there stay")
            raise
        deleted = 0
        if mirror is not None and root.is_dir():
            others = _delete_others(root, (name for name, _ in entries()), exclude, own)
            deleted = mirror.deleted + others
    return Transfer(written.files, written.bytes, skipped=written.skipped, deleted=deleted)


def _refuse_folded(root: Path, names: Iterator[str]) -> None:
    """Refuse names that are one file in the local folder, before one replaces the other."""
    fold = _folding(next(place for place in (root, *root.parents) if place.is_dir()))
    seen: dict[str, str] = {}
    for name in names if fold else ():
        other = seen.setdefault(fold(name), name) if fold else name
        if other != name:
            raise InvalidInputError(
                f"{other!r} and {name!r} are one file in {str(root)!r}: exclude one, or download to a file "
                "system that tells them apart; nothing was written"
            )


def _folding(folder: Path) -> Callable[[str], str] | None:
    """Return the form in which a file system compares names, or None if it tells all apart."""
    with suppress(OSError), TemporaryDirectory(prefix=".graveler-", dir=folder) as scratch:
        (Path(scratch) / _PROBE).touch()
        case = (Path(scratch) / _PROBE.lower()).exists()
        form = (Path(scratch) / normalize("NFD", _PROBE)).exists()
        if case or form:
            return lambda name: normalize("NFC", name.casefold() if case else name)
    return None


def _written(
    files: "_Files", entries: Iterator[tuple[str, Entry]], threads: int, progress: Progress
) -> Transfer:
    taken = written = size = skipped = 0

    def jobs() -> Iterator[_Job]:
        nonlocal taken
        for name, entry in entries:
            taken += 1
            yield files.job(name, entry)

    faults: list[tuple[str, Exception]] = []
    bounds: Bounds[_Job] = Bounds(
        threads, _WINDOW, cost=lambda job: min(job[0].size, PIECE_BYTES), over=files.over
    )
    for number, (entry, done) in enumerate(in_order(files.write, jobs(), bounds), 1):
        if isinstance(done, Exception):
            faults.append((entry.path, done))
        elif done:
            written += 1
            size += entry.size
        else:
            skipped += 1
        progress("download", number, taken)
        if len(faults) == MOST_FAULTS:
            break
    if faults:
        blocked = any(getattr(fault, "errno", 0) in _BLOCKED for _, fault in faults)
        way = "exclude them, and download them apart" if blocked else "download again for the rest"
        raise failure(faults, f"the other {written + skipped:,} files are there: {way}")
    return Transfer(written, size, skipped=skipped)


def failure(faults: Sequence[tuple[str, Exception]], rest: str) -> GravelerError:
    """Return one error for several failed files, of the kind of the first error."""
    shown = "; ".join(f"{path!r}: {_reason(error)}" for path, error in faults[:_SHOWN])
    more = f" and {len(faults) - _SHOWN:,} more" if len(faults) > _SHOWN else ""
    first = faults[0][1]
    message = f"{shown}{more}; {rest}"
    if isinstance(first, GravelerError):
        return first.saying(message)
    if isinstance(first, OSError):
        return local_failure(first, message)
    return InvalidInputError(message)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, GravelerError):
        place = error.filename2 or error.filename
        where = f" ({place})" if place else ""
        return f"{error.strerror or error}{where}"
    return str(error)


class _Mirror:
    """Deletes local files and folders that block the place of a file and are not in the tree."""

    def __init__(
        self, root: Path, scan: Scan, start: bytes, exclude: Pattern, own: OwnFiles
    ) -> None:
        self.deleted = 0
        self._own = own
        self._root = root
        self._scan = scan
        self._start = start
        self._exclude = exclude
        self._folder = ""

    def make_way(self, name: str) -> None:
        """Delete files in the place of a name's folders, and a folder in the place of its file."""
        folder = name.rpartition("/")[0]
        if folder != self._folder:
            self._make_folders_free(f"{folder}/")
            self._folder = folder
        place = self._root / name
        if place.is_dir() and not place.is_symlink() and not self._has(f"{name}/"):
            self._remove(place, f"{name}/")

    def _make_folders_free(self, folder: str) -> None:
        for at in (at for at, letter in enumerate(folder) if letter == "/"):
            place = self._root / folder[:at]
            if os.path.lexists(place) and not place.is_dir() and not self._has(folder[:at]):
                self._own.check(place)
                place.unlink()
                self.deleted += 1

    def _has(self, name: str) -> bool:
        """Return whether the tree has the file, or a file below a name that ends with a slash."""
        key = self._start + name.encode()
        found, _ = next(self._scan(key), (b"", b""))
        return found.startswith(key) if name.endswith("/") else found == key

    def _remove(self, folder: Path, start: str) -> None:
        for file in walk(folder, Links.LIST, self._exclude, lambda *_: None, start=start):
            self._own.check(file.path)
            file.path.unlink(missing_ok=True)
            self.deleted += 1
        for at, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):  # not empty: it has excluded files
                Path(at).rmdir()


class _Files:
    def __init__(self, source: Source, place: Place, mirror: _Mirror | None = None) -> None:
        self.over = Event()
        self._source = source
        self._place = place
        self._mirror = mirror

    def job(self, name: str, entry: Entry) -> _Job:
        """Create the folders for a file. Only one thread calls this."""
        try:
            if self._mirror is not None:
                self._mirror.make_way(name)
            return entry, self._place.of(name)
        except (OSError, InvalidInputError) as error:
            return entry, _unless_full(error)

    def write(self, job: _Job) -> _Done:
        """Write a file unless it exists with the same content, or is the linked file itself."""
        entry, place = job
        if isinstance(place, Exception):
            return entry, place
        try:
            if holds(place, entry) or self._is_linked(place, entry):
                return entry, False
            self._fetch(entry, place)
        except (CorruptionError, ObjectNotFoundError) as error:
            return entry, error
        except GravelerError as error:
            if "://" in entry.address and isinstance(error, PermissionDeniedError):
                return entry, error
            raise error.saying(f"{entry.path!r}: {error}") from error
        except OSError as error:
            return entry, _unless_full(error)
        return entry, True

    def _is_linked(self, place: Path, entry: Entry) -> bool:
        """Return whether a file is the one that the entry links; a copy would end the link."""
        is_local = entry.address.startswith(
            "file://"
        )  # asked first, because most files are not linked
        if not is_local or entry.address != f"file://{place.parent.resolve() / place.name}":
            return False
        self._source.open(entry).close()  # it is refused if it has changed
        return True

    def _fetch(self, entry: Entry, place: Path) -> None:
        if entry.size <= PIECE_BYTES:  # one request
            content = self._source.get(entry)
            with whole_file(place) as out:
                out.write(content)
            return
        with self._source.open(entry) as stream, whole_file(place) as out:
            while piece := stream.read(PIECE_BYTES):
                if self.over.is_set():
                    raise InterruptedError
                out.write(piece)


def _unless_full(error: Exception) -> Exception:
    if isinstance(error, OSError) and error.errno in _FULL:
        raise StorageFullError(
            f"{error.filename or 'the disk'}: {error.strerror}; free some space, and download "
            "again: the files that are there stay"
        ) from error
    return error


def holds(place: Path, entry: Entry) -> bool:
    """Return whether a local file has the size and the checksum of an entry.

    The result is False if the entry has no checksum, or one with an unknown algorithm.
    """
    try:
        status = place.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
        return False
    algorithm, _, wanted = entry.checksum.partition(":")
    digest = new_hash(algorithm) if wanted else None
    if digest is None:
        return False
    with place.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return compare_digest(digest.hexdigest(), wanted.lower())


def _delete_others(root: Path, names: Iterator[str], exclude: Pattern, own: OwnFiles) -> int:
    """Delete the local files with other names, and empty folders. Return the number of files."""
    faults: list[tuple[str, Exception]] = []
    deleted = 0
    local = walk(
        root, Links.LIST, exclude, lambda name, why: faults.append((name, OSError(0, why)))
    )
    keyed = ((os.fsencode(file.name), file) for file in local)
    for file in missing_from(keyed, map(str.encode, names)):
        try:
            own.check(file.path)
            file.path.unlink(missing_ok=True)
        except (OSError, InvalidInputError) as error:
            faults.append((file.name, error))
            continue
        deleted += 1
        prune_folders(file.path.parent, root)
    if faults:
        raise failure(faults, f"all files are there, and {deleted:,} others were deleted")
    return deleted
