"""The storages of a lake's repositories: their URIs, and the checks for a new repository."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain

from graveler.base.arguments import expand_home
from graveler.base.privacy import shown_uri
from graveler.errors import InvalidInputError, KVOutdatedError, StorageMismatchError
from graveler.lake.catalogue import Catalogue, RepositoryRecord
from graveler.objects.address import FILES, is_made_for, is_table
from graveler.objects.store import ObjectStore
from graveler.repository.witness.marker import MARKER, Marker, read_marker

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def absolute(storage: str) -> str:
    """Return a root URI that names the same storage from any working folder.

    A path is a folder, below the working folder if it is relative.
    """
    if "://" not in storage and _SCHEME.match(storage):
        raise InvalidInputError(
            f"storage {shown_uri(storage)!r}: give two slashes after the scheme; if it is a folder, give "
            "its absolute path"
        )
    return storage if "://" in storage else f"file://{expand_home(storage).absolute()}"


class Storages:
    """The storages of one lake."""

    def __init__(
        self,
        location: str,
        root: str,
        catalogue: Catalogue,
        open_store: Callable[[str], ObjectStore],
        *,
        marked: bool,
    ) -> None:
        self._location = location
        self._root = root
        self._catalogue = catalogue
        self._open_store = open_store
        self._marked = marked

    def default(self, name: str) -> str:
        """Return the root URI of a repository of that name below the lake's own storage."""
        return f"{self._root}/{name}"

    def of(self, name: str, record: RepositoryRecord) -> str:
        """Return the root URI of a repository's storage."""
        return record.storage or self.default(name)

    def neighbours(self, uid: str) -> Iterator[tuple[str, str]]:
        """Yield the other repositories, each with the root URI of its storage; also deleted ones."""
        for name, record in chain(self._catalogue.list(), self._catalogue.deleted()):
            if record.uid != uid:
                yield name, self.of(name, record)

    def check_free(
        self, storage: str, name: str, *, uid: str = "", take_over: bool = False, adopt: bool = True
    ) -> Marker | None:
        """Refuse the storage of another repository for a new one; return its marker, if it has one."""
        # listed before the marker is read, which another maker of the repository may put
        first = None if adopt else next(self._open_store(storage).list(), None)
        marker = self._marker(storage)
        if marker is None:
            if first is not None:
                raise InvalidInputError(
                    f"{storage} holds {first.key!r} and belongs to no repository: give an empty "
                    "storage, or `--adopt` this one; what graveler did not put there is left alone"
                )
            return None
        if marker.owner.uid == uid:
            return marker  # another process is making the same repository
        for other, record in chain(self._catalogue.list(), self._catalogue.making()):
            if record.uid != marker.owner.uid:
                continue
            if other == name:
                return marker
            if not take_over or self.of(other, record) == storage:  # otherwise it is a copy
                raise InvalidInputError(
                    f"{storage} is the storage of repository {other!r} already: give each a "
                    "storage of its own"
                )
        if marker.owner.uid in {record.uid for _, record in self._catalogue.deleted()}:
            raise InvalidInputError(
                f"{storage} belongs to the deleted repository {marker.owner.name!r}: `graveler repo "
                f"undelete {marker.owner.name}` or `graveler repo delete {marker.owner.name} --purge "
                f"--storage {storage}`"
            )
        if not take_over:
            raise KVOutdatedError(
                f"{storage} belongs to {marker}, of which the key-value store of {self._location} "
                "knows nothing: it was emptied or restored from an old backup, hides its rows from "
                "this user, or that is another lake's. Restore a newer backup, or give another storage"
            )
        return marker

    def check_no_tables(self, storage: str) -> None:
        """Refuse a storage without a marker for a new repository, which would collect its tables."""
        for info in self._open_store(storage).list("_graveler/") if self._marked else ():
            if is_table(info.key):
                raise InvalidInputError(
                    f"{storage} has no marker, and holds {info.key!r} of a repository: restore that "
                    "one with `graveler refs restore`, or give another storage"
                )

    def check_unowned(self, storage: str) -> None:
        """Refuse to restore refs over a storage that may be in use."""
        marker = self._marker(storage)
        if marker is not None:
            raise StorageMismatchError(
                f"{storage} belongs to {marker}; nothing was written. If that lake is still in "
                "use, restore over a copy of the storage; if it is lost or stopped for good, take "
                "the storage over: `graveler refs restore --take-over`"
            )

    def clear(
        self,
        storage: str,
        record: RepositoryRecord,
        check: Callable[[], object],
        outlast: Callable[[], object],
    ) -> None:
        """Delete what graveler put into a storage, unless another repository has it; the marker last."""
        objects, marker = self._open_store(storage), self._marker(storage)
        if marker is None or marker.owner.uid != record.uid:
            return
        with suppress(StorageMismatchError):  # an older copy of the storage
            check()
        late = False
        for info in [info for folder in ("_graveler/", *FILES) for info in objects.list(folder)]:
            made = is_made_for(record.storage_id, info.key) or is_table(info.key)
            if made and info.key != MARKER:
                late |= objects.delete(info.key)
        if late:
            outlast()
        if objects.delete(MARKER):
            outlast()

    def check_known(self) -> None:
        """Refuse a lake whose own storage has the marker of a repository that it does not have."""
        for folder in self._open_store(self._root).level() if self._marked else ():
            if isinstance(folder, str):
                self.check_free(f"{self._root}/{folder[:-1]}", "")

    def check_empty(self) -> None:
        """Refuse a lake that has no repository but files in its own storage."""
        storage = self._open_store(self._root)
        for info in storage.list():
            raise KVOutdatedError(
                f"the key-value store of {self._location} knows of no repository, but its storage "
                f"is not empty (there is {storage.uri(info.key)}, of {info.mtime:%Y-%m-%d}): it "
                "was emptied, or restored from an old backup: restore a newer one"
            )

    def _marker(self, storage: str) -> Marker | None:
        return read_marker(self._open_store(storage)) if self._marked else None
