"""Reading the files of a repository by their entries, and verifying them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from graveler.errors import CorruptionError, PreconditionFailedError, SourceChangedError
from graveler.model import Entry
from graveler.objects.store import PIECE_BYTES, Expected, ObjectStore, version_of
from graveler.objects.verified import Verifier, verified_stream
from graveler.reads.folders import remove_parts, whole_file
from graveler.reads.stores import FilePlaces


def read_entry(stores: FilePlaces, entry: Entry) -> bytes:
    """Return the bytes of an entry's file. Size, version and checksum are verified.

    Raises:
        CorruptionError: The file differs from its entry.
        ObjectNotFoundError: The file is missing.
    """
    store, key = stores.locate(entry.address)
    with _as_stored(stores, entry, store, key):
        content = store.get(key, _expected(entry))
    verifier_of(stores, entry).feed(0, content)
    return content


def read_range(stores: FilePlaces, entry: Entry, start: int, length: int) -> bytes:
    """Return up to `length` bytes of an entry's file. Size and version are verified."""
    store, key = stores.locate(entry.address)
    with _as_stored(stores, entry, store, key):
        return store.get_range(key, start, length, _expected(entry))


def open_entry(stores: FilePlaces, entry: Entry) -> BinaryIO:
    """Return a readable, seekable stream of an entry's file. The caller closes it.

    Size and version are verified on opening, and the checksum while reading: see
    :func:`graveler.objects.verified.verified_stream`.
    """
    return verified_stream(open_unverified(stores, entry), verifier_of(stores, entry))


def open_unverified(stores: FilePlaces, entry: Entry) -> BinaryIO:
    """Return a stream without checking the checksum. For a local file, this is the open file."""
    store, key = stores.locate(entry.address)
    with _as_stored(stores, entry, store, key):
        return store.open(key, _expected(entry))


def download(
    stores: FilePlaces, entry: Entry, target: Path, progress: Callable[[int], object] = int
) -> None:
    """Write an entry's file to a local file, which is replaced atomically.

    Args:
        stores: Where the file is.
        entry: The entry.
        target: The local file. An existing file is replaced. A device or a pipe is written to.
        progress: Called with the size of each piece.
    """
    with open_entry(stores, entry) as source, _written(target) as out:
        while piece := source.read(PIECE_BYTES):
            out.write(piece)
            progress(len(piece))


@contextmanager
def _written(target: Path) -> Iterator[BinaryIO]:
    place = Path(os.path.realpath(target))  # a link stays, and its target is replaced
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


def _expected(entry: Entry) -> Expected:
    return Expected(entry.size, entry.version)


@contextmanager
def _as_stored(stores: FilePlaces, entry: Entry, store: ObjectStore, key: str) -> Iterator[None]:
    try:
        yield
    except PreconditionFailedError:
        info = store.head(key)
        actual, wanted = f"{info.size} bytes", f"{entry.size} bytes"
        if entry.version:
            actual += f" and version {version_of(info, entry.version)}"
            wanted += f" and version {entry.version}"
        raise refusal(stores.uri(entry.address), entry, actual, wanted) from None
