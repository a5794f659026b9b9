"""A lake in memory that can be opened several times, as if by several processes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from itertools import count
from typing import Any

from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lake import Lake
from graveler.lake.shared import lend_lake
from graveler.model import Entry
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ObjectStore
from graveler.repository.branch import Branch, fence_of
from graveler.repository.writes.staged import StagedWrites
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.process import Process, WatchedKV, WatchedObjects

START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time at which the clock of a world begins."""

_numbers = count(1)


class _WorldLake(Lake):
    """A lake over the stores of a world, as one process sees it."""

    def __init__(self, world: "World", process: Process) -> None:
        super().__init__(
            world.config,
            WatchedKV(world.kv, process),
            clock=world.clock,
            ids=world.ids,
            background=Inline(),
        )
        self._world = world
        self._process = process

    def _open_store(self, uri: str) -> ObjectStore:
        inner = super()._open_store(uri)
        if isinstance(inner, MemoryStore):
            self._world.stores[uri] = inner
        return WatchedObjects(inner, self._process)


class World:
    """The stores of a lake, its clock and its ids.

    A world is deterministic: the same operations give the same ids and times in every world.

    Attributes:
        clock: A clock that moves only when the test moves it.
        ids: Ids that count from one.
        kv: The key-value store itself.
        stores: The object stores by root.
        config: The lake's settings.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        name = f"graveler-test-{next(_numbers)}"
        self.clock = clock or FakeClock(START)
        self.ids = SequenceIds()
        self.kv = MemoryKVStore()
        self.stores: dict[str, MemoryStore] = {}
        self.config = LakeConfig(f"/{name}", "mem://", f"mem://{name}", cache_folder=None)

    def open(self, process: Process | None = None) -> Lake:
        """Return the lake, as another process opens it."""
        return _WorldLake(self, process or Process())

    @contextmanager
    def shared(self, process: Process | None = None) -> Iterator[Lake]:
        """Yield the lake for a block, in which ``grav://`` addresses also use it."""
        with self.open(process) as lake, lend_lake(lake):
            yield lake

    def snapshot(self) -> Any:
        """Return the state of all stores, for `restore`."""
        stores = {uri: store.snapshot() for uri, store in self.stores.items()}
        return self.kv.snapshot(), stores, self.clock.now(), deepcopy(self.ids)

    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot."""
        values, stores, moment, ids = snapshot
        self.kv.restore(values)
        for uri, store in self.stores.items():
            store.restore(stores.get(uri, (0, {})))
        self.clock.set(moment)
        self.ids = deepcopy(ids)


def link_unseen(branch: Branch, entries: Iterable[Entry]) -> int:
    """Stage entries as if the caller had just written their files; return their number."""
    return StagedWrites(branch.repository, branch.name, fence_of(branch)).stage(entries)
