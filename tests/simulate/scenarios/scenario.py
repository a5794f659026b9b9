"""Scenarios: the initial world, the programs of the processes, and the possible faults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from graveler.kv.store import KVStore
from tests.simulate.checkers import CHECKERS, Checker
from tests.simulate.schedules.client import Client
from tests.simulate.schedules.ports import SimulatedKV
from tests.simulate.schedules.processes import Process
from tests.simulate.schedules.run import Run
from tests.simulate.schedules.world import SimulatedWorld

Program = Callable[[Client], object]


@dataclass(frozen=True)
class Scenario:
    """Concurrent processes in one world.

    Attributes:
        name: The name on the command line.
        programs: The program of each process, by the name of the process.
        prepare: The preparation of the world.
        faults: The kinds of faults that may happen.
        budget: The maximum number of faults in one schedule.
        turns: Whether processes can obtain turns; otherwise no process obtains one.
        finish: The work of the recovery process at the end, before it commits the branches.
        all_steps: Whether calls for content-addressed objects are steps as well.
        checkers: The checkers that judge the end of a schedule.
        kv: The driver of the key-value store of the processes.
        errors: Names of errors that an operation may end with, in addition to those of its kind.
    """

    name: str
    programs: Mapping[str, Program]
    prepare: Program = lambda _: None
    faults: tuple[int, ...] = ()
    budget: int = 0
    finish: Program = lambda _: None
    turns: bool = False
    all_steps: bool = False
    checkers: tuple[Checker, ...] = CHECKERS
    errors: frozenset[str] = frozenset()
    kv: type[KVStore] = SimulatedKV
    begins: list[SimulatedWorld] = field(default_factory=list, compare=False, repr=False)

    @property
    def names(self) -> list[str]:
        """The names of the processes."""
        return list(self.programs)

    def prepared(self) -> SimulatedWorld:
        """Return the prepared world, which is made once."""
        if not self.begins:
            self.begins.append(
                SimulatedWorld.prepared(
                    lambda world, process: self.prepare(_client(world, process))
                )
            )
        return self.begins[0]

    def start(self) -> Run:
        """Return a run of the scenario, before its first step."""
        world = SimulatedWorld(
            self.prepared(), all_steps=self.all_steps, turns=self.turns, kv=self.kv
        )
        processes = []
        for index, (name, program) in enumerate(self.programs.items(), 1):
            process = world.process(index, name)
            client = Client(process, world.open(process))
            process.start(partial(program, client))
            processes.append(process)
        return Run(
            world,
            processes,
            faults=self.faults,
            budget=self.budget,
        )


def _client(world: SimulatedWorld, process: Process) -> Client:
    return Client(process, world.open(process))
