"""Everything the use cases of one repository need, in one frozen bundle."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from graveler.clock import Clock, IdSource
from graveler.committed import RangeStore, Splitting
from graveler.errors import PermissionDeniedError
from graveler.kv.store import KVStore
from graveler.objects.address import is_own, place_of, root_of
from graveler.objects.store import ObjectStore
from graveler.refs import Refs
from graveler.staging import StagingArea


class SplittingSource(Protocol):
    """Where the splitting policy of a repository is kept."""

    def current(self) -> Splitting:
        """Return the policy; another process may have changed it a while ago."""
        ...

    def change(self, change: Callable[[Splitting], Splitting]) -> Splitting:
        """Replace the policy with ``change(policy)``, and return it; `change` may run again."""
        ...


class FilePlaces(Protocol):
    """Where the files of entries are."""

    def locate(self, address: str) -> tuple[ObjectStore, str]:
        """Return the store and the key of an entry's address."""
        ...

    def uri(self, address: str) -> str:
        """Return the address as other programs know it."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """The ports and settings of one repository.

    Attributes:
        name: Repository name.
        uid: Unique to this creation of it; part of every partition name.
        location: What ``graveler.open`` takes to reach the same lake from another process.
        default_branch: The branch a new repository starts with.
        kv: Mutable metadata.
        objects: The repository's own storage.
        ranges: Committed metadata, in the same storage.
        staging: Uncommitted entries.
        refs: Branches, tags, commits.
        policy: Keeps the splitting policy.
        clock: Time.
        ids: Unique names.
        open_store: Opens the object store of another root, for linked files.
        neighbours: The other repositories of the lake, each with the root of its storage.
        gate_modules: Modules that required gates may come from, built-in checks aside.
    """

    name: str
    uid: str
    location: str
    default_branch: str
    kv: KVStore
    objects: ObjectStore
    ranges: RangeStore
    staging: StagingArea
    refs: Refs
    policy: SplittingSource
    clock: Clock
    ids: IdSource
    open_store: Callable[[str], ObjectStore]
    neighbours: Callable[[], Iterable[tuple[str, str]]] = tuple
    gate_modules: frozenset[str] = frozenset()

    @property
    def splitting(self) -> Splitting:
        """Where new ranges end."""
        return self.policy.current()

    @property
    def storage(self) -> str:
        """Root URI of the repository's own storage."""
        return self.objects.root

    def locate(self, address: str) -> tuple[ObjectStore, str]:
        """Return the store and the key of an entry's address.

        Raises:
            PermissionDeniedError: A full URI that lies in no declared place.
        """
        if is_own(address):
            return self.objects, address
        return self.locate_foreign(address, self.refs.links.list())

    def locate_foreign(self, uri: str, places: Collection[str]) -> tuple[ObjectStore, str]:
        """Return the store and the key of a file that lies below one of the declared `places`.

        Raises:
            PermissionDeniedError: It lies in none of them.
        """
        place = place_of(uri, places)
        if place is None:
            raise undeclared(self.name, uri, places)
        return self.open_store(root_of(place)), uri[len(place) + 1 :]

    def uri(self, address: str) -> str:
        """Return the address as other programs know it."""
        return self.objects.uri(address) if is_own(address) else address


@dataclass(frozen=True, slots=True)
class FileStores:
    """The object stores of a repository's files; another process may get them, it needs nothing else.

    Attributes:
        repository: Name of the repository.
        objects: Its own storage.
        places: The store of each place that files may be linked from.
    """

    repository: str
    objects: ObjectStore
    places: Mapping[str, ObjectStore]

    @classmethod
    def of(cls, stores: Stores) -> "FileStores":
        """Return those of a repository, with the places that are declared now."""
        places = {place: stores.open_store(root_of(place)) for place in stores.refs.links.list()}
        return cls(stores.name, stores.objects, places)

    def locate(self, address: str) -> tuple[ObjectStore, str]:
        """Return the store and the key of an entry's address.

        Raises:
            PermissionDeniedError: A full URI that lies in no declared place.
        """
        if is_own(address):
            return self.objects, address
        place = place_of(address, self.places)
        if place is None:
            raise undeclared(self.repository, address, self.places)
        return self.places[place], address[len(place) + 1 :]

    def uri(self, address: str) -> str:
        """Return the address as other programs know it."""
        return self.objects.uri(address) if is_own(address) else address


def undeclared(repository: str, uri: str, places: Collection[str]) -> PermissionDeniedError:
    """Return the error that a file lies in no place that the repository has declared."""
    folder = uri.rpartition("/")[0]
    return PermissionDeniedError(
        f"{uri!r} lies in no place that repository {repository!r} may link to (declared: "
        f"{', '.join(sorted(places)) or 'none'}): declare one first, with "
        f"repository.links.allow({folder!r}) or `graveler links allow {folder}`"
    )
