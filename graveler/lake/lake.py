"""A lake: its repositories, and the drivers they share."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from graveler.arguments import PathText, file_path, flag, instance, optional, storage_text, text
from graveler.clock import Clock, IdSource
from graveler.committed import EMPTY_METARANGE, RangeCache, RangeStore, Splitting
from graveler.config import LakeConfig, default_committer
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    InvalidInputError,
    KVOutdatedError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    RepositoryNotFoundError,
    StorageMismatchError,
)
from graveler.fields import Fields
from graveler.kv.store import ABSENT, KVStore
from graveler.lake.repository import Repository
from graveler.lake.wiring import absolute, read_settings, rescuer
from graveler.model import BranchRecord
from graveler.names import check_branch, check_repository
from graveler.objects.registry import open_store
from graveler.objects.store import ObjectStore
from graveler.process import Background
from graveler.reads import Stores
from graveler.records import FORMAT, decode_json, encode_json, read_key
from graveler.refs import Refs
from graveler.refs.dump import read_dump
from graveler.repository.dumps import check_storage
from graveler.repository.witness.marker import Marker, Owner, read_marker
from graveler.repository.witness.witness import Witness, WitnessedKVStore
from graveler.staging import StagingArea

_PARTITION: Final = "lake"
_PREFIX: Final = b"repository/"
_IDENTITY: Final = b"id"


class Lake:
    """Repositories that share a key-value store and a place for objects.

    Close it, or use it as a context manager; any number of threads may share one.

    Attributes:
        location: What ``graveler.open`` takes to reach the same lake from another process.

    Args:
        config: Its settings.
        kv: Its key-value store.
        clock: Time.
        ids: Unique names.
        background: Runs the clean-up.
        witnessed: Whether a `kv` that knows less than the object store is detected.
    """

    def __init__(
        self,
        config: LakeConfig,
        kv: KVStore,
        *,
        clock: Clock,
        ids: IdSource,
        background: Background,
        witnessed: bool = False,
    ) -> None:
        self.location = config.location
        self._config = config
        self._kv = kv
        self._clock = clock
        self._ids = ids
        self._background = background
        self._cache = RangeCache(config.cache_folder, config.cache_max_bytes)
        self._stores: dict[str, ObjectStore] = {}
        self._witnesses: dict[str, Witness] | None = {} if witnessed else None

    def __repr__(self) -> str:
        return f"<Lake {self.location}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish the clean-up and close files and connections; may be called twice."""
        for witness in (self._witnesses or {}).values():
            witness.close()
        self._background.close()
        while self._stores:
            self._stores.popitem()[1].close()
        self._kv.close()

    def repositories(self) -> list[str]:
        """Return the names of the repositories, sorted."""
        names = []
        for key, _ in self._kv.scan(_PARTITION, _PREFIX):
            if not key.startswith(_PREFIX):
                break
            names.append(read_key(key[len(_PREFIX) :], "repository"))
        return names

    def repository(self, name: str) -> Repository:
        """Return a repository.

        Raises:
            RepositoryNotFoundError: There is none of this name.
            OlderFormatError: An older graveler made it.
            BackendUnavailableError: Its storage is a folder that holds nothing of it: usually a
                volume that is not mounted.
            StorageMismatchError: The settings name another storage than the repository's.
        """
        return self._repository(text(name, "name"))

    def accept(self, name: str) -> Repository:
        """Accept what both stores of a repository hold now, whatever one of them has lost.

        For a key-value store that was restored from an old backup, or a storage that lost files.

        Raises:
            StorageMismatchError: The storage is another repository's, or is elsewhere: that is a
                mistake in the settings.
        """
        repository = self._repository(text(name, "name"), check=False)
        if self._witnesses is not None:
            self._witnesses[repository.stores.uid].accept()
        return repository

    def _repository(self, name: str, *, check: bool = True) -> Repository:
        stored = self._kv.get(_PARTITION, _PREFIX + check_repository(name).encode())
        if stored is None:
            with suppress(BackendUnavailableError, InvalidInputError, PermissionDeniedError):
                self._check_free(self.default_storage(name), name)
            there = ", ".join(self.repositories()) or "none"
            raise RepositoryNotFoundError(
                f"no repository {name!r} in {self.location} (there are: {there}): "
                f"make it with `graveler repo create {name}`"
            )
        settings = read_settings(stored.value, f"repository {name}")
        return self._open(name, settings, check=check)

    def create_repository(
        self,
        name: str,
        *,
        storage: PathText | None = None,
        default_branch: str = "main",
        exist_ok: bool = False,
        splitting: Splitting | None = None,
        take_over: bool = False,
    ) -> Repository:
        """Make a repository with an empty first commit on its default branch.

        Args:
            name: 3 to 63 of ``a-z 0-9 -``.
            storage: Root URI of its objects (``s3://bucket/flights``, a folder); below the
                lake's storage where not given.
            default_branch: Name of the first branch.
            exist_ok: Return the existing repository of that name.
            splitting: Where its ranges end; the lake's setting where not given.
            take_over: Take the storage from a repository that this lake does not know. A lake
                that still uses it gets an error when it moves its next ref.

        Raises:
            AlreadyExistsError: The name is taken.
            KVOutdatedError: The storage is that of such a repository.
            InvalidInputError: It is that of another repository of the lake.
        """
        name, default_branch = text(name, "name"), text(default_branch, "default_branch")
        storage = None if storage is None else storage_text(storage)
        flag(exist_ok, "exist_ok"), flag(take_over, "take_over")
        optional(instance, splitting, "splitting", kind=Splitting, expected="a Splitting")
        key = _PREFIX + check_repository(name).encode()
        check_branch(default_branch)
        if self._kv.get(_PARTITION, key) is not None:
            return self._taken(name, exist_ok=exist_ok)
        rule = splitting or Splitting(**self._config.splitting)
        uid = self._ids.unique()
        place = absolute(storage or self.default_storage(name))
        settings: dict[str, Any] = {
            "format": FORMAT,
            "lake": self._identity(),
            "uid": uid,
            # a storage below the lake's own is not recorded: the lake can be moved, and a copy
            # of it has its own objects
            "storage": "" if place == self.default_storage(name) else place,
            "default_branch": default_branch,
            "splitting": [rule.min_bytes, rule.max_bytes, rule.raggedness],
        }
        self._check_free(place, name, take_over=take_over)
        # no witness yet: before the last write below there is nothing to lose
        refs = Refs(self._kv, uid, clock=self._clock, ids=self._ids)
        root = refs.commits.add(
            metarange=EMPTY_METARANGE,
            parents=(),
            message="Repository created",
            committer=default_committer(),
            created=self._clock.now(),
            metadata={},
        )
        refs.branches.create(
            BranchRecord(default_branch, commit_id=root.id, staging_token=self._ids.unique())
        )
        try:  # the last write: before it the repository is invisible
            self._kv.set_if(_PARTITION, key, encode_json(settings), ABSENT)
        except (PreconditionFailedError, OutcomeUnknownError) as error:
            there = self._kv.get(_PARTITION, key)
            if there is None and isinstance(error, OutcomeUnknownError):
                raise
            if there is None or there.value != encode_json(settings):
                return self._taken(name, exist_ok=exist_ok)
        repository = self._open(name, settings, check=False)
        if self._witnesses is not None:
            self._witnesses[uid].claim(take_over=take_over)
        return repository

    def restore_repository(
        self,
        file: str | Path,
        *,
        name: str | None = None,
        storage: PathText | None = None,
        take_over: bool = False,
    ) -> Repository:
        """Restore a dump of refs; make the repository if the lake has none of that name.

        For a lake whose key-value store was lost: the objects remain in the storage, and the dump
        (``repository.dump_refs``) has the refs and commits that name them. May be repeated.

        Args:
            file: The dump.
            name: Of the repository; as in the dump where not given.
            storage: Root URI of its objects; as in the dump where not given.
            take_over: Take the storage from the lake that its marker names. Stop that lake
                first: it gets an error only when it moves its next ref, and writes and deletes
                files until then.

        Raises:
            StorageMismatchError: The storage belongs to a lake, and `take_over` is not set.
            CorruptionError: The file is damaged, or a commit is not what its id says.
            ObjectNotFoundError: The storage lacks an object that a ref needs.
            AlreadyExistsError: A repository of that name has branches at other commits.
        """
        file = file_path(file, "file")
        name = None if name is None else text(name, "name")
        storage = None if storage is None else storage_text(storage)
        contents = read_dump(Path(file))
        header = contents.header
        name = check_repository(name or header.repository)
        if self._kv.get(_PARTITION, _PREFIX + name.encode()) is None:
            root = storage or header.storage or self.default_storage(name)
            check_storage(RangeStore(self._open_store(absolute(root)), self._cache), contents)
            if not take_over:
                self._check_unowned(absolute(root))
            repository = self.create_repository(
                name,
                storage=root,
                default_branch=header.default_branch,
                exist_ok=True,
                splitting=Splitting(*header.splitting),
                take_over=take_over,
            )
        else:
            repository = self.repository(name)
        repository.restore_refs(file)
        return repository

    def default_storage(self, name: str) -> str:
        """Return the default root URI of the objects of a repository of that name."""
        name = text(name, "name")
        return f"{self._config.storage_uri}/{name}"

    def _taken(self, name: str, *, exist_ok: bool) -> Repository:
        if not exist_ok:
            raise AlreadyExistsError(f"repository {name!r} exists: choose another name") from None
        return self.repository(name)

    def _open(self, name: str, settings: Mapping[str, Any], *, check: bool = True) -> Repository:
        uid = settings["uid"]
        storage = settings["storage"] or self.default_storage(name)
        objects = self._open_store(storage)
        low, high, raggedness = settings["splitting"]
        owner = Owner(settings["lake"], uid, name, self.location)
        witness = self._witness(owner, objects, check=check)
        watched = self._kv if witness is None else WitnessedKVStore(self._kv, witness.moving)
        ranges = RangeStore(objects, self._cache, rescue=rescuer(self._kv, uid, self._clock))

        def has_tree(tree: str) -> bool:
            return tree == EMPTY_METARANGE or ranges.is_stored(bytes.fromhex(tree))

        stores = Stores(
            name=name,
            uid=uid,
            location=self.location,
            default_branch=settings["default_branch"],
            kv=self._kv,
            objects=objects,
            ranges=ranges,
            staging=StagingArea(self._kv, uid, self._background),
            refs=Refs(watched, uid, clock=self._clock, ids=self._ids, has_tree=has_tree),
            splitting=Splitting(low, high, raggedness),
            clock=self._clock,
            ids=self._ids,
            open_store=self._open_store,
            neighbours=lambda: self._neighbours(uid),
            gate_modules=self._config.gate_modules,
        )
        return Repository(self, stores, witness)

    def _witness(self, owner: Owner, objects: ObjectStore, *, check: bool) -> Witness | None:
        if self._witnesses is None:
            return None
        witness = self._witnesses.get(owner.uid)
        if witness is None:
            made = Witness(
                owner,
                self._kv,
                objects,
                clock=self._clock,
                ids=self._ids,
                background=self._background,
            )
            if check:
                made.check_place()
            witness = self._witnesses.setdefault(owner.uid, made)
        return witness

    def _identity(self) -> str:
        """Return the id of the lake, which its key-value store holds; made where it has none."""
        while (stored := self._kv.get(_PARTITION, _IDENTITY)) is None:
            made = encode_json({"format": FORMAT, "id": self._ids.unique()})
            with suppress(PreconditionFailedError, OutcomeUnknownError):
                self._kv.set_if(_PARTITION, _IDENTITY, made, ABSENT)
        what = "id of the lake"
        return Fields(decode_json(stored.value, what, stamped=True), what).name("id")

    def check_kv(self) -> None:
        """Check that the key-value store has not lost every repository.

        Raises:
            KVOutdatedError: It has no repository, and the lake's storage is not empty.
        """
        if self._witnesses is None or self.repositories():
            return
        storage = self._open_store(self._config.storage_uri)
        for info in storage.list():
            raise KVOutdatedError(
                f"the key-value store of {self.location} knows of no repository, but its storage "
                f"is not empty (there is {storage.uri(info.key)}, of {info.mtime:%Y-%m-%d}): it "
                "was emptied, or restored from an old backup: restore a newer one"
            )

    def _check_free(self, storage: str, name: str, *, take_over: bool = False) -> None:
        """Refuse the storage of another repository for a new one."""
        marker = self._marker(storage)
        if marker is None:
            return
        other, place = self._places().get(marker.owner.uid, ("", ""))
        if other == name:
            return  # another process is making the same repository
        if other and not (take_over and place != storage):  # else: a copy of it
            raise InvalidInputError(
                f"{storage} is the storage of repository {other!r} already: give each a storage of "
                "its own"
            )
        if not take_over:
            raise KVOutdatedError(
                f"{storage} belongs to {marker}, of which the key-value store of {self.location} "
                "knows nothing: it was emptied or restored from an old backup, or that is another "
                "lake's. Restore a newer backup, or give another storage"
            )

    def _check_unowned(self, storage: str) -> None:
        """Refuse to restore refs over a storage that may be in use."""
        marker = self._marker(storage)
        if marker is not None:
            raise StorageMismatchError(
                f"{storage} belongs to {marker}; nothing was written. If that lake is still in "
                "use, restore over a copy of the storage; if it is lost or stopped for good, take "
                "the storage over: `graveler refs restore --take-over`"
            )

    def _marker(self, storage: str) -> Marker | None:
        return None if self._witnesses is None else read_marker(self._open_store(storage))

    def _places(self) -> dict[str, tuple[str, str]]:
        """Return the names of the repositories and the roots of their storages, by unique id."""
        places = {}
        for name in self.repositories():
            stored = self._kv.get(_PARTITION, _PREFIX + name.encode())
            if stored is not None:
                settings = read_settings(stored.value, f"repository {name}")
                places[settings["uid"]] = name, settings["storage"] or self.default_storage(name)
        return places

    def _neighbours(self, uid: str) -> list[tuple[str, str]]:
        """Return the names of the other repositories and the roots of their storages."""
        return [place for other, place in self._places().items() if other != uid]

    def _open_store(self, uri: str) -> ObjectStore:
        store = self._stores.get(uri)
        if store is None:
            options = self._config.options_of(uri)
            opened = open_store(
                uri,
                options,
                clock=self._clock,
                ids=self._ids,
                no_progress_s=self._config.no_progress_s,
            )
            store = self._stores.setdefault(uri, opened)
            if store is not opened:  # another thread opened it first
                opened.close()
        return store
