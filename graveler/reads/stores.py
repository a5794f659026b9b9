"""The stores and settings of a repository, in one frozen object."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from graveler.base.clock import Clock, IdSource, StoreClock
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import Splitting
from graveler.errors import PermissionDeniedError
from graveler.kv.store import KVStore
from graveler.model import Commit
from graveler.objects.address import is_own, linked_root, place_of
from graveler.objects.store import ObjectStore
from graveler.refs.refs import Refs
from graveler.staging.area import StagingArea


class SplittingSource(Protocol):
    """The storage of the splitting policy of a repository."""

    def current(self) -> Splitting:
        """Return the policy. It can be outdated for a while after another process changes it."""
        ...

    def change(self, change: Callable[[Splitting], Splitting]) -> Splitting:
        """Replace the policy with ``change(policy)``, and return it. `change` may run again."""
        ...


class FilePlaces:
    """Where the files of entries are."""

    __slots__ = ()
    objects: ObjectStore

    def locate(self, address: str) -> tuple[ObjectStore, str]:
        """Return the store and the key of an entry's address."""
        return (self.objects, address) if is_own(address) else self._locate_foreign(address)

    def uri(self, address: str) -> str:
        """Return the address as other programs know it."""
        return self.objects.uri(address) if is_own(address) else address

    def accepted(self, uri: str) -> int:
        """Return the time, in µs since 1970, up to which changes of a linked file are accepted."""
        accepted = self._accepted()
        return max((accepted[at] for at in accepted if f"{uri}/".startswith(f"{at}/")), default=0)

    def check_origin(self, origin: str) -> None:
        """Raise ExpiredError if the origin of an entry is a commit whose tree is known to be gone."""

    @abstractmethod
    def _locate_foreign(self, uri: str) -> tuple[ObjectStore, str]:
        """Return the store and the key of a file outside of the repository's storage."""

    @abstractmethod
    def _accepted(self) -> Mapping[str, int]:
        """Return the time up to which changes are accepted, by file or folder."""


@dataclass(frozen=True, slots=True)
class Stores(FilePlaces):
    """The stores and settings of one repository.

    Attributes:
        uid: An id that is unique to this creation of the repository, part of every partition name.
        storage_id: The id of its storage, which is part of the addresses of new files.
        location: The argument of ``graveler.open`` for the same lake in another process.
        open_store: Opens the object store of another root, for linked files.
        moving: Announces a move of a ref to the witness, which learns the time of the store.
        neighbours: The other repositories of the lake, each with the root of its storage.
        gate_modules: Modules from which required gates may come, besides the built-in checks.
        observer: Called with each commit that a call on this object has landed on a branch.
    """

    name: str
    uid: str
    storage_id: str
    location: str
    default_branch: str
    kv: KVStore
    objects: ObjectStore
    ranges: RangeStore
    staging: StagingArea
    refs: Refs
    policy: SplittingSource
    clock: Clock
    store_clock: StoreClock
    ids: IdSource
    open_store: Callable[[str], ObjectStore]
    moving: Callable[..., None]
    neighbours: Callable[[], Iterable[tuple[str, str]]] = tuple
    gate_modules: frozenset[str] = frozenset()
    observer: "Callable[[Stores, str, Commit], None] | None" = None

    @property
    def splitting(self) -> Splitting:
        """Where new ranges end."""
        return self.policy.current()

    @property
    def storage(self) -> str:
        """Root URI of the repository's own storage."""
        return self.objects.root

    def _locate_foreign(self, uri: str) -> tuple[ObjectStore, str]:
        return self.locate_foreign(uri, self.refs.links.list())

    def locate_foreign(self, uri: str, places: Collection[str]) -> tuple[ObjectStore, str]:
        """Return the store and the key of a file that lies below one of the declared `places`."""
        place = place_of(uri, places)
        if place is None:
            raise undeclared(self.name, uri, places)
        return self.open_store(linked_root(place)), uri[len(place) + 1 :]

    def _accepted(self) -> Mapping[str, int]:
        return self.refs.links.accepted()

    def check_origin(self, origin: str) -> None:
        """Raise ExpiredError if the origin of an entry is a commit whose tree is gone."""
        self.refs.expired.check_readable(origin)


@dataclass(frozen=True, slots=True)
class FileStores(FilePlaces):
    """The object stores of a repository's files. They can be sent to another process."""

    repository: str
    objects: ObjectStore
    places: Mapping[str, ObjectStore]
    changes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, stores: Stores) -> "FileStores":
        """Return the stores of a repository, with its currently declared places."""
        links = stores.refs.links
        places = {place: stores.open_store(linked_root(place)) for place in links.list()}
        return cls(stores.name, stores.objects, places, links.accepted())

    def _accepted(self) -> Mapping[str, int]:
        return self.changes

    def _locate_foreign(self, uri: str) -> tuple[ObjectStore, str]:
        place = place_of(uri, self.places)
        if place is None:
            raise undeclared(self.repository, uri, self.places)
        return self.places[place], uri[len(place) + 1 :]


def undeclared(repository: str, uri: str, places: Collection[str]) -> PermissionDeniedError:
    """Return the error for a file that is in no declared place of the repository."""
    folder = uri.rpartition("/")[0]
    return PermissionDeniedError(
        f"{uri!r} lies in no place that repository {repository!r} may link to (declared: "
        f"{', '.join(sorted(places)) or 'none'}): declare one first, with "
        f"repository.links.allow({folder!r}) or `graveler links allow {folder}`"
    )
