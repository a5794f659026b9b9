"""Exporting a tree as plain files to a folder or a bucket, with a record of completeness.

The record, ``_SUCCESS``, is removed first and put last. Meanwhile another record names the export
that has begun, so that only the same export can continue it. Any number of processes may copy. A
file may be copied again. Each file exists whole or not at all.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from graveler.base.arguments import expand_home
from graveler.base.records import Schema
from graveler.errors import InvalidInputError, ObjectNotFoundError, StateError
from graveler.model import Entry
from graveler.objects.address import AddressBook, root_of
from graveler.objects.store import PIECE_BYTES, ObjectStore
from graveler.reads.files import open_entry, read_entry
from graveler.reads.local.folders import Pattern, lake_files
from graveler.reads.stores import FileStores, Stores

RECORD = "_SUCCESS"
"""Key of the record."""
BEGUN = ".graveler-export"
"""Key of the record of an export that has not ended."""


@dataclass(frozen=True, slots=True)
class Export:
    """The description of an export.

    Attributes:
        prefix: Folder of the tree, with a slash at its end, or "" for the whole tree.
        since: The commit whose files the target had before, or "" for a full export.
    """

    repository: str
    commit: str
    prefix: str = ""
    since: str = ""
    files: int = 0
    bytes: int = 0
    deleted: int = 0


_EXPORT = Schema(Export, added=("files", "bytes", "deleted"), stamped=True)


def destination(stores: Stores, place: str | Path) -> ObjectStore:
    """Return the store of a folder or bucket prefix, the target of an export."""
    named = str(place) if "://" in str(place) else str(expand_home(place).absolute())
    uri = AddressBook(stores.storage).place(named)
    for name, root in ((stores.name, stores.storage), *stores.neighbours()):
        if f"{uri}/".startswith(f"{root}/") or f"{root}/".startswith(f"{uri}/"):
            raise InvalidInputError(
                f"{uri} and {root}, the storage of repository {name!r}, are not apart: export to "
                "another place"
            )
    if uri.startswith("file://"):
        folder = Path(uri.removeprefix("file://"))
        lake_files(stores).check_apart(folder, Pattern())
    return stores.open_store(root_of(uri))


def begin(target: ObjectStore, export: Export) -> None:
    """Remove the record of an earlier export, because files will be missing from now on."""
    if export.since:
        _check_there(target, export)
    target.put(BEGUN, _EXPORT.encode(export))
    target.delete(RECORD)


def _check_there(target: ObjectStore, export: Export) -> None:
    """Check that the target has the files of `export.since`, or an incomplete copy of `export`."""
    there, begun = _read(target, RECORD), _read(target, BEGUN)
    if there is not None:
        same = (there.repository, there.prefix) == (export.repository, export.prefix)
        if same and there.commit in (export.since, export.commit):
            return
        what = f"has commit {there.commit} of {there.repository!r}, folder {there.prefix!r}"
        way = "export since what is there, or without since to another place"
    elif begun is not None:
        if begun == export:
            return
        since = f" since {begun.since}" if begun.since else ""
        what = (
            f"has some of the files of commit {begun.commit} of {begun.repository!r}, folder "
            f"{begun.prefix!r}: an export{since} has begun there and not ended"
        )
        way = "repeat that one first, or export without since to another place"
    else:
        what = f"has no {RECORD} of an export"
        way = "export without since, which copies all files"
    raise StateError(
        f"{target.root} {what}; it is not known to have commit {export.since} of {export.repository!r}, "
        f"folder {export.prefix!r}: {way}"
    )


def _read(target: ObjectStore, key: str) -> Export | None:
    """Return the export of a record, without the counts, or None if there is no record."""
    what = f"{target.uri(key)}, where the record of an export should be,"
    try:
        export = _EXPORT.decode(target.get(key), what)
    except ObjectNotFoundError:
        return None
    return replace(export, files=0, bytes=0, deleted=0)


def end(target: ObjectStore, export: Export) -> None:
    """Put the record of completeness."""
    target.put(RECORD, _EXPORT.encode(export))
    target.delete(BEGUN)


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies and deletes files. It can be sent to another process."""

    files: FileStores
    target: ObjectStore
    prefix: str

    def copy(self, entry: Entry) -> None:
        """Copy a file. Its size, version and checksum are verified."""
        key = self._key(entry.path)
        if entry.size <= PIECE_BYTES:  # one request
            self.target.put(key, read_entry(self.files, entry))
            return
        with open_entry(self.files, entry) as stream:
            self.target.put(key, stream)

    def delete(self, path: str) -> None:
        """Delete the copy of the file at a path. A missing copy is not an error."""
        self.target.delete(self._key(path))

    def _key(self, path: str) -> str:
        key = path[len(self.prefix) :]
        if key in (RECORD, BEGUN):
            raise InvalidInputError(
                f"an export writes a file of that name: export another folder than {self.prefix!r}"
            )
        return key
