"""What is simulated: how the world begins, who does what in it, and what may go wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.simulate.checkers import CHECKERS, Checker
from tests.simulate.schedules.client import Client
from tests.simulate.schedules.processes import Process
from tests.simulate.schedules.run import Run
from tests.simulate.schedules.world import SimulatedWorld

Program = Callable[[Client], object]


@dataclass(frozen=True)
class Scenario:
    """Processes that meet in one world.

    Attributes:
        name: Names it on the command line.
        programs: What each process does, by its name.
        prepare: What was done before.
        faults: The kinds of faults that may happen.
        budget: How many of them in one schedule.
        turns: Whether processes take turns; else no process ever gets one.
        finish: What is done in the end, by the process that recovers.
        all_steps: Whether calls of content-addressed things are steps as well.
        checkers: Who judges how it ended.
        errors: Names of errors that an operation may end with, beside those of its kind.
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
    begins: list[SimulatedWorld] = field(default_factory=list, compare=False, repr=False)

    @property
    def names(self) -> list[str]:
        """The processes."""
        return list(self.programs)

    def prepared(self) -> SimulatedWorld:
        """Return the world in which all was done that was done before; it is made once."""
        if not self.begins:
            self.begins.append(
                SimulatedWorld.prepared(
                    lambda world, process: self.prepare(_client(world, process))
                )
            )
        return self.begins[0]

    def start(self) -> Run:
        """Return a run of it, before its first step."""
        world = SimulatedWorld(self.prepared(), all_steps=self.all_steps, turns=self.turns)
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
