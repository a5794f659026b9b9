"""The drivers of a lake, and what opens its repositories."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Self

from graveler.base.arguments import text
from graveler.base.background import Background
from graveler.base.clock import Clock, IdSource, StoreClock
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.config import LakeConfig
from graveler.kv.store import KVStore
from graveler.lake.catalogue import Catalogue, KeptSplitting, RepositoryRecord
from graveler.lake.repository import Repository
from graveler.lake.storages import Storages
from graveler.objects.registry import open_store
from graveler.objects.store import ObjectStore
from graveler.reads.stores import Stores
from graveler.refs.refs import Refs
from graveler.repository.witness.marker import MARKER, Owner
from graveler.repository.witness.witness import Witness, WitnessedKVStore
from graveler.staging.area import StagingArea

if TYPE_CHECKING:
    from graveler.collections.systems import Systems
    from graveler.iam.directory import Directory


class Drivers:
    """The stores that the repositories of a lake share."""

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
        self._catalogue = Catalogue(kv, clock=clock, ids=ids)
        self._storages = Storages(
            config.location,
            config.storage_uri,
            self._catalogue,
            lambda uri: self._open_store(uri),  # noqa: PLW0108 - tests replace the method
            marked=witnessed,
        )
        self._witnesses: dict[str, Witness] | None = {} if witnessed else None

    def __repr__(self) -> str:
        return f"<Lake {self.location}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def iam(self) -> "Directory":
        """The users of the lake and their rights, which everything that is served asks.

        This process, which holds the keys of the stores, is not asked.
        """
        from graveler.iam.directory import Directory

        return Directory(self._kv, clock=self._clock, ids=self._ids)

    @cached_property
    def keep(self) -> "Systems":
        """The lake's systems of Keep, stores of blocks on servers."""
        from graveler.collections.systems import Systems

        return Systems(self._kv, clock=self._clock, ids=self._ids)

    def close(self) -> None:
        """Finish the clean-up, close files and connections, and unmap tables; may be called twice."""
        for witness in (self._witnesses or {}).values():
            witness.close()
        self._background.close()
        while self._stores:
            self._stores.popitem()[1].close()
        self._kv.close()
        self._cache.clear()

    def default_storage(self, name: str) -> str:
        """Return the default root URI of the objects of a repository of that name."""
        return self._storages.default(text(name, "name"))

    def _open(self, name: str, record: RepositoryRecord, *, check: bool = True) -> Repository:
        uid = record.uid
        objects = self._open_store(self._storages.of(name, record))
        clock = StoreClock(self._clock, local=objects.local_file(MARKER) is not None)
        owner = Owner(record.lake, uid, name, self.location, record.storage_id)
        witness = self._witness(owner, objects, clock, check=check)
        moving = witness.moving if witness is not None else lambda **_: None
        watched = WitnessedKVStore(self._kv, moving)

        def rescue(identifier: bytes, put: Callable[[], bool]) -> bool:
            from graveler.gc.files import Rescuer

            return Rescuer(self._kv, uid, clock=self._clock)(identifier, put)

        ranges = RangeStore(objects, self._cache, rescue=rescue)

        def has_tree(tree: str) -> bool:
            return tree == EMPTY_METARANGE or ranges.is_stored(bytes.fromhex(tree))

        stores = Stores(
            name=name,
            uid=uid,
            storage_id=record.storage_id,
            location=self.location,
            default_branch=record.default_branch,
            kv=self._kv,
            objects=objects,
            ranges=ranges,
            staging=StagingArea(self._kv, uid, self._background),
            refs=Refs(watched, uid, clock=clock, ids=self._ids, has_tree=has_tree),
            policy=KeptSplitting(self._catalogue, name, record, self._clock),
            clock=self._clock,
            store_clock=clock,
            ids=self._ids,
            open_store=self._open_store,
            moving=moving,
            neighbours=lambda: self._storages.neighbours(uid),
            gate_modules=self._config.gate_modules,
        )
        own = stores.storage == self.default_storage(name)
        return Repository(stores, witness, default_storage=own)

    def _witness(
        self, owner: Owner, objects: ObjectStore, clock: StoreClock, *, check: bool
    ) -> Witness | None:
        if self._witnesses is None:
            return None
        witness = self._witnesses.get(owner.uid)
        if witness is None:
            made = Witness(
                owner, self._kv, objects, clock=clock, ids=self._ids, background=self._background
            )
            if check:
                made.check_place()
            witness = self._witnesses.setdefault(owner.uid, made)
        return witness

    def _open_store(self, uri: str) -> ObjectStore:
        store = self._stores.get(uri)
        if store is None:
            opened = self._opened(uri)
            store = self._stores.setdefault(uri, opened)
            if store is not opened:  # another thread opened it first
                opened.close()
        return store

    def _opened(self, uri: str) -> ObjectStore:
        clock, ids = self._clock, self._ids
        if uri.startswith("keep://"):
            from graveler.collections.objects import KeepObjects

            return KeepObjects(uri, self._kv, self.keep, clock=clock, ids=ids)
        options, patience = self._config.options_of(uri), self._config.no_progress_s
        return open_store(uri, options, clock=clock, ids=ids, no_progress_s=patience)
