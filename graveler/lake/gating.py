"""How the process of a gate opens a repository: its objects, over somebody's key-value store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graveler.background import Inline
from graveler.clock import RandomIds, SystemClock
from graveler.committed import RangeCache, RangeStore, Splitting
from graveler.config import LakeConfig
from graveler.kv.store import KVStore
from graveler.objects.registry import open_store
from graveler.objects.store import ObjectStore
from graveler.refs import Refs
from graveler.repository import Stores
from graveler.staging import StagingArea

__all__ = ["FromConfig", "elsewhere"]

_MEMORY = "mem://"


@dataclass(frozen=True, slots=True)
class FromConfig:
    """A repository as another process opens it.

    Attributes:
        config: Settings of its lake.
        name: Of the repository.
        storage: Root URI of its objects.
        settings: Its record.
    """

    config: LakeConfig
    name: str
    storage: str
    settings: Mapping[str, Any]

    def open(self, kv: KVStore) -> Stores:
        """Return the repository over a key-value store that is given."""
        clock = SystemClock()
        ids = RandomIds(clock)
        uid = self.settings["uid"]
        objects = self._objects(self.storage)
        cache = RangeCache(self.config.cache_folder, self.config.cache_max_bytes)
        return Stores(
            name=self.name,
            uid=uid,
            location=self.config.location,
            default_branch=self.settings["default_branch"],
            kv=kv,
            objects=objects,
            ranges=RangeStore(objects, cache),
            staging=StagingArea(kv, uid, Inline()),
            refs=Refs(kv, uid, clock=clock, ids=ids),
            splitting=Splitting(*self.settings["splitting"]),
            clock=clock,
            ids=ids,
            open_store=self._objects,
        )

    def _objects(self, uri: str) -> ObjectStore:
        options = self.config.storage_options if uri.startswith("s3") else {}
        return open_store(uri, options, no_progress_s=self.config.no_progress_s)


def elsewhere(
    config: LakeConfig, name: str, storage: str, settings: Mapping[str, Any]
) -> FromConfig | None:
    """Return how another process opens a repository; None where its objects live in this one."""
    if storage.startswith(_MEMORY):
        return None
    return FromConfig(config, name, storage, dict(settings))
