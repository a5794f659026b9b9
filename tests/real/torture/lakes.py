"""The lakes of a torture: their locations, and how a process opens them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graveler.base.background import Background, Inline, OneThread
from graveler.base.clock import RandomIds, SystemClock
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.kv.registry import open_kv
from graveler.kv.store import KVStore
from graveler.lake.lake import Lake
from graveler.lake.repository import Repository
from graveler.objects.store import ObjectStore
from tests.real.torture.operations import POOL, pool_entry


class Never(Background):
    """Forgets its tasks, like a process that dies before them."""

    def run(self, task: Callable[[], None]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


BACKGROUNDS: dict[str, type[Background]] = {
    "inline": Inline,
    "thread": OneThread,
    "never": Never,
}
CACHES = {"none": 1 << 20, "large": 1 << 24, "tiny": 20_000}
"""The folders of caches, with their sizes in bytes."""

SPLITTINGS = {
    "crumbs": Splitting(max_bytes=1_000, raggedness=6),
    "small": Splitting("directory", max_bytes=4_000, raggedness=20),
    "whole": Splitting(max_bytes=1 << 20, raggedness=50_000),
}


@dataclass(frozen=True)
class FixedSplitting:
    """A policy that does not change."""

    splitting: Splitting

    def current(self) -> Splitting:
        return self.splitting

    def change(self, change: Callable[[Splitting], Splitting]) -> Splitting:
        raise AssertionError(f"{change} changes {self.splitting}")


@dataclass(frozen=True)
class Options:
    """The options with which a process opens a lake, by names, so that they can be sent.

    Attributes:
        cache: One of CACHES.
        background: One of BACKGROUNDS.
        splitting: One of SPLITTINGS, for new ranges.
    """

    cache: str = "none"
    background: str = "inline"
    splitting: str = "small"


@dataclass(frozen=True)
class Place:
    """The location of a lake.

    Attributes:
        folder: The folder of objects and caches.
        kv_uri: The key-value store.
    """

    folder: str
    kv_uri: str


class _WrappedLake(Lake):
    def __init__(self, *given: Any, wrap: Callable[[ObjectStore], ObjectStore], **named: Any):
        super().__init__(*given, **named)
        self._wrap = wrap

    def _open_store(self, uri: str) -> ObjectStore:
        return self._wrap(super()._open_store(uri))


def open_lake(
    place: Place,
    options: Options,
    *,
    wrap_kv: Callable[[KVStore], KVStore] = lambda store: store,
    wrap_objects: Callable[[ObjectStore], ObjectStore] = lambda store: store,
) -> Lake:
    """Open the lake as a new process does."""
    folder = Path(place.folder)
    config = LakeConfig(
        location=place.folder,
        kv_uri=place.kv_uri,
        storage_uri=f"file://{folder / 'objects'}",
        cache_folder=None if options.cache == "none" else folder / f"cache-{options.cache}",
        cache_max_bytes=CACHES[options.cache],
    )
    clock = SystemClock()
    return _WrappedLake(
        config,
        wrap_kv(open_kv(place.kv_uri)),
        clock=clock,
        ids=RandomIds(clock),
        background=BACKGROUNDS[options.background](),
        wrap=wrap_objects,
    )


def open_repository(lake: Lake, name: str, options: Options) -> Repository:
    """Return a repository that writes ranges as the options say, not by its own policy."""
    repo = lake.repository(name)
    policy = FixedSplitting(SPLITTINGS[options.splitting])
    return Repository(replace(repo.stores, policy=policy), repo._witness)


def prepare(lake: Lake, name: str) -> tuple[str, dict[str, str]]:
    """Make a repository with the objects that victims link; return its head and its tree."""
    repo = lake.create_repository(name)
    tree = {f"pool/{number}": content for number, content in enumerate(POOL)}
    entries = [pool_entry(path, content) for path, content in tree.items()]
    for entry in entries:
        info = repo.stores.objects.put(entry.address, tree[entry.path].encode())
        assert info.checksum == entry.checksum
    repo.branch("main").link_many(entries)
    return repo.branch("main").commit("the pool").id, tree
