"""The initial state of a lake, which is made once and copied for every schedule."""

from collections.abc import Callable
from typing import Any

from graveler.base.background import Inline
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.kv.store import KVStore
from graveler.lake.lake import Lake
from graveler.lake.repository import Repository
from graveler.objects.store import ObjectStore
from tests.simulate.history import History
from tests.simulate.scenarios.shared import Shared
from tests.simulate.schedules.ports import SimulatedKV, SimulatedObjects
from tests.simulate.schedules.processes import Process

REPOSITORY = "flights"
_DAYS_APART = 30
_CONFIG = LakeConfig("simulated", "mem://", "mem://simulated", cache_folder=None)
_SPLITTING = Splitting(min_bytes=0, max_bytes=2_000, raggedness=3)


class _SimulatedLake(Lake):
    """A lake whose object stores are the process's own view of the shared objects."""

    def __init__(
        self, process: Process, *, all_steps: bool, turns: bool, kv: Any = SimulatedKV
    ) -> None:
        store = kv(process, all_steps=all_steps, turns=turns)
        super().__init__(_CONFIG, store, clock=process.clock, ids=process.ids, background=Inline())
        self._process = process
        self._all_steps = all_steps

    def _open_store(self, uri: str) -> ObjectStore:
        return SimulatedObjects(self._process, uri, all_steps=self._all_steps)


class SimulatedWorld:
    """The shared stores and the history of one schedule.

    Args:
        earlier: The world to copy; None for an empty world.
        all_steps: Whether every call of a store is a step.
        turns: Whether processes can obtain turns.
        kv: The driver of the key-value store.
    """

    def __init__(
        self,
        earlier: "SimulatedWorld | None" = None,
        *,
        all_steps: bool = False,
        turns: bool = False,
        kv: type[KVStore] = SimulatedKV,
    ) -> None:
        self.shared: Shared = Shared() if earlier is None else earlier.shared.fork()
        self.history: History = History(None if earlier is None else earlier.history)
        self._day = _DAYS_APART if earlier is not None else 0
        self._steps: dict[str, Any] = {"all_steps": all_steps, "turns": turns, "kv": kv}

    def process(self, index: int, name: str) -> Process:
        """Return a new process."""
        return Process(index, name, self.shared, self.history, day=self._day)

    def later(self) -> None:
        """Advance the calendar by the days that lie between preparation and schedule."""
        self._day += _DAYS_APART

    def open(self, process: Process) -> Repository:
        """Return the repository for the process; opening it takes no scheduled step."""
        return _SimulatedLake(process, **self._steps).repository(REPOSITORY)

    @classmethod
    def prepared(cls, prepare: Callable[["SimulatedWorld", Process], object]) -> "SimulatedWorld":
        """Return a world with a repository, after `prepare` has run."""
        world = cls()
        process = world.process(0, "setup")
        lake = _SimulatedLake(process, all_steps=False, turns=False)
        lake.create_repository(REPOSITORY, splitting=_SPLITTING)
        prepare(world, process)
        process.flush()
        return world
