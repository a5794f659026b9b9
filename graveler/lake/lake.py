"""A lake: its repositories, and the drivers they share."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from graveler.background import Background
from graveler.clock import Clock, IdSource
from graveler.committed import EMPTY_METARANGE, RangeCache, RangeStore, Splitting
from graveler.config import LakeConfig, default_committer
from graveler.errors import (
    AlreadyExistsError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RepositoryNotFoundError,
)
from graveler.kv.store import ABSENT, KVStore
from graveler.lake.repository import Repository
from graveler.lake.rescuing import rescuer
from graveler.model import BranchRecord
from graveler.names import check_branch, check_repository
from graveler.objects.registry import open_store
from graveler.objects.store import ObjectStore
from graveler.records import decode_json, encode_json
from graveler.refs import Refs
from graveler.repository import Stores
from graveler.staging import StagingArea

__all__ = ["Lake"]

_PARTITION: Final = "lake"
_PREFIX: Final = b"repository/"


class Lake:
    """Repositories that share a key-value store and a place for objects.

    Close it, or use it as a context manager; any number of threads may share one.

    Attributes:
        location: What ``graveler.open`` takes to reach the same lake from another process.
    """

    def __init__(
        self,
        config: LakeConfig,
        kv: KVStore,
        *,
        clock: Clock,
        ids: IdSource,
        background: Background,
    ) -> None:
        self.location = config.location
        self._config = config
        self._kv = kv
        self._clock = clock
        self._ids = ids
        self._background = background
        self._cache = RangeCache(config.cache_folder, config.cache_max_bytes)
        self._stores: dict[str, ObjectStore] = {}

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
            names.append(key[len(_PREFIX) :].decode())
        return names

    def repository(self, name: str) -> Repository:
        """Return a repository, or raise RepositoryNotFoundError."""
        stored = self._kv.get(_PARTITION, _PREFIX + check_repository(name).encode())
        if stored is None:
            there = ", ".join(self.repositories()) or "none"
            raise RepositoryNotFoundError(
                f"no repository {name!r} in {self.location} (there are: {there}): "
                f"make it with `graveler repo create {name}`"
            )
        return self._open(name, decode_json(stored.value, f"repository {name}"))

    def create_repository(
        self,
        name: str,
        *,
        storage: str | None = None,
        default_branch: str = "main",
        exist_ok: bool = False,
        splitting: Splitting | None = None,
    ) -> Repository:
        """Make a repository with an empty first commit on its default branch.

        Args:
            name: 3 to 63 of ``a-z 0-9 -``.
            storage: Root URI of its objects (``s3://bucket/flights``, a folder); below the
                lake's storage where not given.
            default_branch: Name of the first branch.
            exist_ok: Return the repository that has the name, if one has.
            splitting: Where its ranges end; the lake's setting where not given.

        Raises:
            AlreadyExistsError: The name is taken.
        """
        key = _PREFIX + check_repository(name).encode()
        check_branch(default_branch)
        if self._kv.get(_PARTITION, key) is not None:
            return self._taken(name, exist_ok=exist_ok)
        rule = splitting or Splitting(**self._config.splitting)
        uid = self._ids.unique()
        settings: dict[str, Any] = {
            "uid": uid,
            "storage": _absolute(storage) if storage else f"{self._config.storage_uri}/{name}",
            "default_branch": default_branch,
            "splitting": [rule.min_bytes, rule.max_bytes, rule.raggedness],
        }
        repository = self._open(name, settings)
        refs = repository.stores.refs
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
                return repository
            return self._taken(name, exist_ok=exist_ok)
        return repository

    def _taken(self, name: str, *, exist_ok: bool) -> Repository:
        if not exist_ok:
            raise AlreadyExistsError(f"repository {name!r} exists: choose another name") from None
        return self.repository(name)

    def _open(self, name: str, settings: Mapping[str, Any]) -> Repository:
        uid = settings["uid"]
        objects = self._open_store(settings["storage"])
        low, high, raggedness = settings["splitting"]
        stores = Stores(
            name=name,
            uid=uid,
            location=self.location,
            default_branch=settings["default_branch"],
            kv=self._kv,
            objects=objects,
            ranges=RangeStore(
                objects, self._cache, rescue=rescuer(self._kv, uid, self._clock)
            ),
            staging=StagingArea(self._kv, uid, self._background),
            refs=Refs(self._kv, uid, clock=self._clock, ids=self._ids),
            splitting=Splitting(low, high, raggedness),
            clock=self._clock,
            ids=self._ids,
            open_store=self._open_store,
        )
        return Repository(self, stores)

    def _open_store(self, uri: str) -> ObjectStore:
        store = self._stores.get(uri)
        if store is None:
            options = self._config.storage_options if uri.startswith("s3") else {}
            opened = open_store(uri, options, clock=self._clock, ids=self._ids)
            store = self._stores.setdefault(uri, opened)
            if store is not opened:  # another thread was quicker
                opened.close()
        return store


def _absolute(storage: str) -> str:
    """Return what names the same place in whatever folder the next process is started."""
    return storage if "://" in storage else f"file://{Path(storage).expanduser().absolute()}"
