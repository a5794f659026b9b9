"""Reading the files of a repository by their entries, and verifying them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from graveler.errors import (
    CorruptionError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SourceChangedError,
)
from graveler.model import Entry
from graveler.objects.store import PIECE_BYTES, Expected, ObjectInfo, ObjectStore, version_of
from graveler.objects.verified import Hash, Verifier, new_hash, verified_stream
from graveler.reads.local.folders import descriptor_of, lake_files, remove_parts, whole_file
from graveler.reads.stores import FilePlaces, Stores

_T = TypeVar("_T")


def read_entry(stores: FilePlaces, entry: Entry) -> bytes:
    """Return the bytes of an entry's file. Size, version and checksum are verified."""
    content = _read(stores, entry, lambda store, key, expected: store.get(key, expected))
    verifier_of(stores, entry).feed(0, content)
    return content


def read_range(stores: FilePlaces, entry: Entry, start: int, length: int) -> bytes:
    """Return up to `length` bytes of an entry's file. Size and version are verified."""
    return _read(stores, entry, lambda store, key, it: store.get_range(key, start, length, it))


def open_entry(stores: FilePlaces, entry: Entry) -> BinaryIO:
    """Return a readable, seekable stream of an entry's file. The caller closes it.

    Size and version are verified on opening, and the checksum while reading: see
    :func:`graveler.objects.verified.verified_stream`.
    """
    return verified_stream(open_unverified(stores, entry), verifier_of(stores, entry))


def open_unverified(stores: FilePlaces, entry: Entry) -> BinaryIO:
    """Return a stream without checking the checksum. For a local file, this is the open file."""
    return _read(stores, entry, lambda store, key, expected: store.open(key, expected))


def download(
    stores: Stores, entry: Entry, target: Path, progress: Callable[[int], object] = int
) -> None:
    """Write an entry's file to a local file, which is replaced atomically."""
    place = Path(os.path.realpath(target))  # a link stays, and its target is replaced
    lake_files(stores).check(place)
    with open_entry(stores, entry) as source, _written(place, descriptor_of(target)) as out:
        while piece := source.read(PIECE_BYTES):
            out.write(piece)
            progress(len(piece))


@contextmanager
def _written(place: Path, descriptor: int | None) -> Iterator[BinaryIO]:
    if descriptor is not None:  # behind what is written to it already
        with os.fdopen(os.dup(descriptor), "wb") as out:
            yield out
        return
    if place.exists() and not place.is_file():
        with place.open("wb") as out:
            yield out
        return
    with suppress(OSError):  # the folder cannot be listed or does not exist
        remove_parts(place.parent)
    with whole_file(place) as out:
        yield out


def verifier_of(stores: FilePlaces, entry: Entry) -> Verifier:
    """Return the verifier of the bytes of an entry's file."""
    return Verifier(
        entry.size,
        entry.checksum,
        lambda actual, wanted: refusal(stores.uri(entry.address), entry, actual, wanted),
    )


def refusal(uri: str, entry: Entry, actual: str, wanted: str) -> CorruptionError:
    """Return the error of a file that differs from its entry."""
    if "://" in entry.address:
        return SourceChangedError(
            f"{entry.path!r} is linked to {uri}, which was changed since: it has {actual}, and had "
            f"{wanted} when it was linked; put the file back, or link it again"
        )
    return CorruptionError(
        f"{entry.path!r}: the file at {uri} has {actual}, and its entry has {wanted}; if you have "
        f"the right bytes, put({entry.path!r}, …, replace=True) repairs it; `graveler fsck "
        "--checksums` looks for others"
    )


def _read(stores: FilePlaces, entry: Entry, read: Callable[[ObjectStore, str, Expected], _T]) -> _T:
    """Read the version of a file that its entry names, or an equal one."""
    store, key = stores.locate(entry.address)
    try:
        return read(store, key, Expected(entry.size, entry.version))
    except ObjectNotFoundError as error:
        stores.check_origin(entry.origin)
        raise error.saying(f"the bytes of {entry.path!r} are gone: {error}") from error
    except PreconditionFailedError as error:
        changed, info = error, store.head(key)
    version = version_of(info, entry.version)
    same = entry.version in {"", version}  # again: it was changed while it was read
    if info.size == entry.size and (same or _only_inode_differs(entry, version)):
        if problem := change_of(stores, entry, store, key, info):
            uri = stores.uri(entry.address)
            raise SourceChangedError(f"{entry.path!r} is linked to {uri}, which {problem}")
        with suppress(PreconditionFailedError):
            return read(store, key, Expected(entry.size, version))
    actual, wanted = f"{info.size} bytes", f"{entry.size} bytes"
    if entry.version:
        actual += f" and version {version}"
        wanted += f" and version {entry.version}"
    raise refusal(stores.uri(entry.address), entry, actual, wanted) from changed


def change_of(
    stores: FilePlaces, entry: Entry, store: ObjectStore, key: str, info: ObjectInfo
) -> str:
    """Return how a linked file differs from the version that was linked, or "".

    If only its inode or its time of change differ, a known checksum decides. Without one, the
    change must be accepted.
    """
    version = version_of(info, entry.version)
    if entry.version in {"", version}:
        return ""
    problem = f"is at {version}, and was at {entry.version} when it was linked"
    if not _only_inode_differs(entry, version):
        return problem
    if new_hash(entry.checksum.partition(":")[0]) is not None:
        found = _checksum(store, key, version, entry.checksum.partition(":")[0])
        return (
            ""
            if found == entry.checksum.lower()
            else f"{problem}; it has {found}, not {entry.checksum}"
        )
    if info.changed_us <= stores.accepted(entry.address):
        return ""
    return (
        f"{problem}: size and time are equal, but the file was moved, touched or replaced. If it is the "
        f"right one, `graveler links accept {entry.address}`; else put it back"
    )


def _only_inode_differs(entry: Entry, version: str) -> bool:
    time, inode, _ = entry.version.partition(" ")
    return bool(inode) and time.startswith("mtime:") and version.startswith(f"{time} ")


@lru_cache(maxsize=1024)
def _checksum(store: ObjectStore, key: str, version: str, algorithm: str) -> str:
    fresh = cast("Hash", new_hash(algorithm))
    with store.open(key, Expected(version=version)) as stream:
        while piece := stream.read(PIECE_BYTES):
            fresh.update(piece)
    return f"{algorithm.lower()}:{fresh.hexdigest()}"
