"""A tree as plain files in a folder or a bucket: their copies, and the record that all of them are there.

The record, ``_SUCCESS``, is removed first and put last. Meanwhile another one says which export has begun, so
that only this one is repeated on top of what it left. Any number of processes may copy, each file may be
copied again, and a file is there whole or not at all.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from graveler.arguments import expand_home
from graveler.errors import InvalidInputError, ObjectNotFoundError, StateError
from graveler.model import Entry
from graveler.objects.address import AddressBook, root_of
from graveler.objects.store import PIECE_BYTES, ObjectStore
from graveler.reads.files import open_entry, read_entry
from graveler.reads.folders import Pattern, check_apart
from graveler.reads.stores import FileStores, Stores
from graveler.records import FORMAT, Fields, decode_json, encode_json

RECORD: Final = "_SUCCESS"
"""Key of the record."""
BEGUN: Final = ".graveler-export"
"""Key of the record of an export that has not ended."""


@dataclass(frozen=True, slots=True)
class Export:
    """What was exported.

    Attributes:
        repository: Name of the repository.
        commit: Id of the commit.
        prefix: Folder of the tree, with a slash at its end; "" for all of it.
        since: The commit of which the files were there; "" if none had to be.
        files: Files that were copied.
        bytes: Their bytes.
        deleted: Files that were deleted.
    """

    repository: str
    commit: str
    prefix: str = ""
    since: str = ""
    files: int = 0
    bytes: int = 0
    deleted: int = 0


def destination(stores: Stores, place: str | Path) -> ObjectStore:
    """Return the store of a folder or a prefix of a bucket that files are exported to.

    Raises:
        InvalidInputError: It is no place, or a repository of the lake is kept there.
    """
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
        check_apart(folder, stores.location, stores.objects, Pattern())
    return stores.open_store(root_of(uri))


def begin(target: ObjectStore, export: Export) -> None:
    """Remove the record of an earlier export: from now on files are missing.

    Raises:
        StateError: It is of another commit or folder than those files which the export changes, or there is
            none.
        CorruptionError: It is no record of an export.
    """
    if export.since:
        _check_there(target, export)
    target.put(BEGUN, _encoded(export))
    target.delete(RECORD)


def _check_there(target: ObjectStore, export: Export) -> None:
    """Check that the files of `export.since` are there, but for what this same export has done before."""
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
    """Return what a record says, without the counts; None where there is none."""
    what = f"{target.uri(key)}, where the record of an export should be,"
    try:
        fields = Fields(decode_json(target.get(key), what, stamped=True), what)
    except ObjectNotFoundError:
        return None
    repository, commit, prefix, since = map(
        fields.text, ("repository", "commit", "prefix", "since")
    )
    return Export(repository, commit, prefix, since)


def _encoded(export: Export) -> bytes:
    return encode_json({**asdict(export), "format": FORMAT})


def end(target: ObjectStore, export: Export) -> None:
    """Put the record: all files are there."""
    target.put(RECORD, _encoded(export))
    target.delete(BEGUN)


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies and deletes files; another process may get it.

    Attributes:
        files: Where the files are.
        target: Where they go.
        prefix: Start of the paths, which names at the target lack.
    """

    files: FileStores
    target: ObjectStore
    prefix: str

    def copy(self, entry: Entry) -> None:
        """Copy a file; its size, version and checksum are compared.

        Raises:
            CorruptionError: It differs from its entry, and is not copied.
            ObjectNotFoundError: It is gone.
            InvalidInputError: The target cannot have a file of that name.
        """
        key = self._key(entry.path)
        if entry.size <= PIECE_BYTES:  # one request
            self.target.put(key, read_entry(self.files, entry))
            return
        with open_entry(self.files, entry) as stream:
            self.target.put(key, stream)

    def delete(self, path: str) -> None:
        """Delete the copy of the file at a path; no error if there is none."""
        self.target.delete(self._key(path))

    def _key(self, path: str) -> str:
        key = path[len(self.prefix) :]
        if key in (RECORD, BEGUN):
            raise InvalidInputError(
                f"an export writes a file of that name: export another folder than {self.prefix!r}"
            )
        return key
