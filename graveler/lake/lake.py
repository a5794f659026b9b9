"""A lake: its repositories, and the drivers they share."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from graveler.background import Background
from graveler.clock import Clock, IdSource
from graveler.committed import EMPTY_METARANGE, RangeCache, RangeStore, Splitting
from graveler.config import LakeConfig, default_committer
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    CorruptionError,
    InvalidInputError,
    KVOutdatedError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PreconditionFailedError,
    RepositoryNotFoundError,
)
from graveler.fields import Fields, row
from graveler.gates.enforcing import enforce
from graveler.kv.store import ABSENT, KVStore
from graveler.lake.repository import Repository
from graveler.lake.rescuing import rescuer
from graveler.model import BranchRecord
from graveler.names import check_branch, check_repository
from graveler.objects.registry import open_store
from graveler.objects.store import ObjectStore
from graveler.records import FORMAT, decode_json, encode_json, read_key
from graveler.refs import Refs
from graveler.refs.dump import read_dump
from graveler.repository import Stores
from graveler.repository.dumping import check_storage
from graveler.repository.watched_kv import WatchedKVStore
from graveler.repository.witness import Count, Witness, forget, witnesses
from graveler.staging import StagingArea

__all__ = ["Lake"]

_PARTITION: Final = "lake"
_PREFIX: Final = b"repository/"


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
        background: Where clean-up is handed over.
        witnessed: Whether it is told when `kv` knows less than the object store remembers.
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
        """Finish the clean-up, give back files and connections; may be called twice."""
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

    def repository(self, name: str, *, accept_storage: bool = False) -> Repository:
        """Return a repository.

        Args:
            name: Of the repository.
            accept_storage: Take its storage as it is, although nothing of the repository is there.

        Raises:
            RepositoryNotFoundError: There is none of this name.
            OlderFormatError: An older graveler made it.
            BackendUnavailableError: Its storage is a folder in which nothing of it is left: most
                often a volume that is not mounted.
        """
        stored = self._kv.get(_PARTITION, _PREFIX + check_repository(name).encode())
        if stored is None:
            with suppress(BackendUnavailableError, InvalidInputError, PermissionDeniedError):
                self._check_storage(f"{self._config.storage_uri}/{name}", name)
            there = ", ".join(self.repositories()) or "none"
            raise RepositoryNotFoundError(
                f"no repository {name!r} in {self.location} (there are: {there}): "
                f"make it with `graveler repo create {name}`"
            )
        settings = _read_settings(stored.value, f"repository {name}")
        return self._open(name, settings, accept_storage=accept_storage)

    def create_repository(
        self,
        name: str,
        *,
        storage: str | None = None,
        default_branch: str = "main",
        exist_ok: bool = False,
        splitting: Splitting | None = None,
        accept_storage: bool = False,
    ) -> Repository:
        """Make a repository with an empty first commit on its default branch.

        Args:
            name: 3 to 63 of ``a-z 0-9 -``.
            storage: Root URI of its objects (``s3://bucket/flights``, a folder); below the
                lake's storage where not given.
            default_branch: Name of the first branch.
            exist_ok: Return the repository that has the name, if one has.
            splitting: Where its ranges end; the lake's setting where not given.
            accept_storage: Take the storage although it holds the history of a repository
                that the key-value store knows nothing of.

        Raises:
            AlreadyExistsError: The name is taken.
            KVOutdatedError: The storage holds such a history.
        """
        key = _PREFIX + check_repository(name).encode()
        check_branch(default_branch)
        if self._kv.get(_PARTITION, key) is not None:
            return self._taken(name, exist_ok=exist_ok)
        rule = splitting or Splitting(**self._config.splitting)
        uid = self._ids.unique()
        place = _absolute(storage or self.default_storage(name))
        settings: dict[str, Any] = {
            "format": FORMAT,
            "uid": uid,
            # below the lake's own it is not written down: a lake can be moved, and a copy of
            # one has objects of its own
            "storage": "" if place == self.default_storage(name) else place,
            "default_branch": default_branch,
            "splitting": [rule.min_bytes, rule.max_bytes, rule.raggedness],
        }
        if accept_storage:
            self._forget_strangers(place)
        else:
            self._check_storage(place, name)
        # not witnessed yet: until the last write below there is nothing to forget
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
        try:  # the last write: until here nobody can see the repository
            self._kv.set_if(_PARTITION, key, encode_json(settings), ABSENT)
        except (PreconditionFailedError, OutcomeUnknownError) as error:
            there = self._kv.get(_PARTITION, key)
            if there is None and isinstance(error, OutcomeUnknownError):
                raise
            if there is not None and there.value == encode_json(settings):
                return self._open(name, settings)
            return self._taken(name, exist_ok=exist_ok)
        return self._open(name, settings)

    def restore_repository(
        self, file: str | Path, *, name: str | None = None, storage: str | None = None
    ) -> Repository:
        """Restore a dump of refs, into a new repository where there is none of the name.

        For the lake whose key-value store was lost: the objects are where they were, and the
        dump (``repository.dump_refs``) says what they were. May be repeated.

        Args:
            file: The dump.
            name: Of the repository; as in the dump where not given.
            storage: Root URI of its objects; as in the dump where not given.

        Raises:
            CorruptionError: The file is damaged, or a commit is not what its id says.
            ObjectNotFoundError: The storage has not what the refs name.
            AlreadyExistsError: There is a repository of the name, with branches elsewhere.
        """
        contents = read_dump(Path(file))
        header = contents.header
        name = check_repository(name or header.repository)
        if self._kv.get(_PARTITION, _PREFIX + name.encode()) is None:
            root = storage or header.storage or self.default_storage(name)
            check_storage(RangeStore(self._open_store(_absolute(root)), self._cache), contents)
            repository = self.create_repository(
                name,
                storage=root,
                default_branch=header.default_branch,
                exist_ok=True,
                splitting=Splitting(*header.splitting),
                accept_storage=True,
            )
        else:
            repository = self.repository(name)
        repository.restore_refs(file)
        return repository

    def default_storage(self, name: str) -> str:
        """Return where the objects of a repository are unless it was made with another storage."""
        return f"{self._config.storage_uri}/{name}"

    def _taken(self, name: str, *, exist_ok: bool) -> Repository:
        if not exist_ok:
            raise AlreadyExistsError(f"repository {name!r} exists: choose another name") from None
        return self.repository(name)

    def _open(
        self, name: str, settings: Mapping[str, Any], *, accept_storage: bool = False
    ) -> Repository:
        uid = settings["uid"]
        storage = settings["storage"] or self.default_storage(name)
        objects = self._open_store(storage)
        low, high, raggedness = settings["splitting"]
        witness = self._witness(name, uid, objects, check=not accept_storage)
        watched = self._kv if witness is None else WatchedKVStore(self._kv, witness.moving)
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
            judge=enforce,
        )
        return Repository(self, stores, witness)

    def _witness(self, name: str, uid: str, objects: ObjectStore, *, check: bool) -> Witness | None:
        if self._witnesses is None:
            return None
        witness = self._witnesses.get(uid)
        if witness is None:
            made = Witness(
                name, uid, self._kv, objects, clock=self._clock, background=self._background
            )
            if check:
                made.check_mounted()
            witness = self._witnesses.setdefault(uid, made)
        return witness

    def _strangers(self, storage: str) -> dict[str, Count]:
        """Return the repositories of which the storage has a witness and we no record."""
        found = dict(witnesses(self._open_store(storage)))
        if found:
            for name in self.repositories():
                found.pop(self.repository(name).stores.uid, None)
        return found

    def check_kv(self) -> None:
        """Look whether the key-value store has forgotten every repository there was.

        Raises:
            KVOutdatedError: It knows of none, and the lake's storage is not empty.
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

    def _check_storage(self, storage: str, name: str) -> None:
        if self._witnesses is None:
            return
        for uid, count in self._strangers(storage).items():
            raise KVOutdatedError(
                f"{storage} holds the history of a repository {uid}, count {count}, which the "
                "key-value store knows nothing of: it was emptied or restored from an old backup, "
                "or belongs to another lake. Restore a newer backup; or make a new repository "
                f"there all the same with `graveler repo create {name} --accept-storage`"
            )

    def _forget_strangers(self, storage: str) -> None:
        for uid in self._strangers(storage):
            forget(self._open_store(storage), uid)

    def _open_store(self, uri: str) -> ObjectStore:
        store = self._stores.get(uri)
        if store is None:
            options = self._config.storage_options if uri.startswith("s3") else {}
            opened = open_store(
                uri,
                options,
                clock=self._clock,
                ids=self._ids,
                no_progress_s=self._config.no_progress_s,
            )
            store = self._stores.setdefault(uri, opened)
            if store is not opened:  # another thread was quicker
                opened.close()
        return store


def _read_settings(raw: bytes, what: str) -> dict[str, Any]:
    """Return the record of a repository, or raise CorruptionError or OlderFormatError."""
    fields = Fields(decode_json(raw, what, stamped=True), what)
    splitting = row(fields.value("splitting"), ("min_bytes", "max_bytes", "raggedness"), what)
    rule = [splitting.number(name) for name in splitting]
    try:
        Splitting(*rule)
    except InvalidInputError as error:
        raise CorruptionError(f"{what} cannot be read: {error}") from error
    return {
        "uid": fields.name("uid"),
        "storage": fields.text("storage"),
        "default_branch": fields.name("default_branch"),
        "splitting": rule,
    }


def _absolute(storage: str) -> str:
    """Return what names the same place in whatever folder the next process is started."""
    return storage if "://" in storage else f"file://{Path(storage).expanduser().absolute()}"
