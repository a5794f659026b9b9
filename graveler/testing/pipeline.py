"""``simulate``: a user's pipeline with a fault at every call.

The pipeline runs once without a fault, and its calls to the key-value store and the object store
are counted. Then it runs again for every call and every kind of fault, from the same initial state:

- The process dies before or after the call.
- The store does not reply, before or after the effect.
- The process hangs at the call, and an orchestrator runs the next attempt completely.

After each fault the pipeline runs again, as an orchestrator would repeat it, and the lake is checked.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, get_args

from graveler.errors import InvalidInputError
from graveler.gates import Gate
from graveler.gates.gate import Check
from graveler.lake import Repository
from graveler.testing.faults import Action, Moment, ProcessDied, lost_reply, unavailable
from graveler.testing.observer import Observer, Same, contents
from graveler.testing.process import Call, Process
from graveler.testing.verdict import Verdict, differences, leftovers
from graveler.testing.world import World

Pipeline = Callable[[Any], object]
"""Called with a repository, or with a run if `simulate` was given its key."""

Kind = Literal["dies-before", "dies-after", "unavailable", "lost-reply", "overtaken"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_OF_WRITES = frozenset({"dies-after", "lost-reply"})
_REPOSITORY = "simulated"
_ATTEMPTS = 3
_NEAR = 3


class SimulationError(AssertionError):
    """A pipeline fails at a fault; the message names the call and says how to repeat the fault.

    Attributes:
        point: The point of the fault, in the form of `only` of `simulate`; "" without a fault.
    """

    def __init__(self, message: str, point: str = "") -> None:
        super().__init__(message)
        self.point = point

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.point)


@dataclass(frozen=True, slots=True)
class Point:
    """The place and the kind of a disturbance of a pipeline."""

    kind: Kind
    call: Call

    @property
    def name(self) -> str:
        """The point as text, for `only`."""
        return f"{self.kind}:{self.call.number}"


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation.

    Attributes:
        calls: Number of calls to the stores in an undisturbed run.
        points: Number of disturbances that were tried and reached their call.
        of: Number of all disturbances.
    """

    calls: int
    points: int
    of: int

    def __str__(self) -> str:
        sampled = "" if self.points == self.of else f" of {self.of}"
        return f"{self.calls} calls, {self.points}{sampled} disturbances: main is all or nothing"


@dataclass
class _Scene:
    """The initial state, which can be restored any number of times."""

    pipeline: Callable[[Repository], object]
    branch: str
    same: Same
    world: World = field(default_factory=World)

    def prepare(self, prepare: Callable[[Repository], object] | None) -> None:
        """Make the lake of the initial state, before the pipeline runs."""
        with self.world.shared() as lake:
            repository = lake.create_repository(_REPOSITORY, default_branch=self.branch)
            if prepare is not None:
                prepare(repository)
        self._beginning = self.world.snapshot()
        self._lake = self.world.open()
        self.repository = self._lake.repository(_REPOSITORY)

    def begin(self) -> Observer:
        self.world.restore(self._beginning)
        self._lake = self.world.open()  # a lake without caches
        self.repository = self._lake.repository(_REPOSITORY)
        return Observer(self.repository, self.branch, self.same)

    def run(self, process: Process) -> BaseException | None:
        """Run the pipeline as one process; return the error that it raised, or ProcessDied."""
        raised: BaseException | None = None
        try:
            with self.world.shared(process) as lake:
                self.pipeline(lake.repository(_REPOSITORY))
        except (Exception, ProcessDied) as error:  # noqa: BLE001 - the pipeline may raise anything
            raised = error
        if process.dead:
            return ProcessDied("dead")
        process.dead = True  # its remaining threads cannot reach a store
        return raised

    def run_again(self, observer: Observer) -> BaseException | None:
        """Run the pipeline until it succeeds, at most a few times; return the last error."""
        error: BaseException | None = None
        for _ in range(_ATTEMPTS):
            # a new process does not have the context of this thread
            error = Context().run(self.run, Process(observer.seen))
            if error is None:
                return None
        return error


def simulate(
    pipeline: Pipeline,
    *,
    run: str | None = None,
    gates: Iterable[Gate | Check] = (),
    prepare: Callable[[Repository], object] | None = None,
    branch: str = "main",
    publishes: int = 1,
    same: Same = contents,
    kinds: Sequence[Kind] = KINDS,
    most: int = 400,
    seed: int = 0,
    only: str | None = None,
) -> Simulation:
    """Run a pipeline through every crash, and check that its target is all or nothing.

    A pipeline may use threads. The order of its calls then differs from run to run: each
    disturbance strikes the n-th call, and one that is not reached is not counted.

    ::

        def test_the_hourly_pipeline_survives_everything():
            simulate(hourly, prepare=yesterday)

    These conditions are checked at every moment and at the end. `branch` shows only states of an
    undisturbed run. Nothing is staged on it. After the next attempt it has the final state of an
    undisturbed run. After the reaper has run, no branch and no staged write is left behind. fsck
    finds no problem.

    Args:
        pipeline: Called with the repository many times. It must not keep state between calls, or
            depend on time or random numbers.
        run: Key of a run to open; the pipeline is then called with the run, which is published
            with `gates` when the pipeline returns.
        gates: Gates of the run.
        prepare: Called once with the repository, before the pipeline.
        branch: The branch to which the pipeline publishes; it is the repository's default branch.
        publishes: How often an undisturbed run may move the branch.
        same: Returns the relevant content of a tree; by default the bytes of every file.
        kinds: Kinds of disturbances: ``dies-before`` and ``dies-after`` a call, ``unavailable`` (the
            store does not reply once), ``lost-reply`` (the effect happens, the reply is lost),
            ``overtaken`` (the next attempt runs meanwhile).
        most: Largest number of disturbances. If there are more, those around the moves of the
            branch and a random choice of others are used.
        seed: Seed of the random choice.
        only: Only this point, as a failure names it: ``dies-after:57``.

    Raises:
        SimulationError: A fault makes the pipeline publish something else; the message names the
            fault and says how to repeat it.
    """
    __tracebackhide__ = True  # pytest shows only the message
    scene = _Scene(_called_with(pipeline, run, gates, branch), branch, same)
    with _quiet():
        scene.prepare(prepare)
        expected, process = _undisturbed(scene, publishes)
        everything = list(_points(process, kinds))
        failures: dict[Kind, SimulationError] = {}  # the first of each kind is enough
        reached = 0
        for point in _chosen(everything, expected, most, seed, only):
            if point.kind in failures:
                continue
            struck, wrong = _disturbed(scene, point, expected, threaded=process.threaded)
            reached += struck is not None
            if wrong:
                text = _describe(point, struck or point.call, wrong, threaded=process.threaded)
                failures[point.kind] = SimulationError(text, point.name)
    if failures:
        first = next(iter(failures.values()))
        raise SimulationError("\n\n".join(map(str, failures.values())), first.point)
    return Simulation(len(process.calls), reached, len(everything))


def _called_with(
    pipeline: Pipeline, run: str | None, gates: Iterable[Gate | Check], branch: str
) -> Callable[[Repository], object]:
    if run is None:
        return pipeline
    judges = tuple(gates)

    def whole(repository: Repository) -> object:
        with repository.run(run, into=branch, gates=judges) as opened:
            return pipeline(opened)

    return whole


def _undisturbed(scene: _Scene, publishes: int) -> tuple[Verdict, Process]:
    """Run the pipeline twice from the initial state; return its result and its process."""
    observer = scene.begin()
    process = Process(observer.seen)
    error = scene.run(process)
    if error is not None:
        raise SimulationError(f"undisturbed, the pipeline fails: {error!r}") from error
    if observer.staged:
        raise SimulationError(
            f"the pipeline writes to {scene.branch} directly, where readers see it before the rest "
            f"is there: {observer.staged[0]}. Write to a run (`with repo.run(key) as run:`), "
            "which is published as a whole"
        )
    if len(observer.moves) > publishes:
        moves = "\n  ".join(str(move.call) for move in observer.moves)
        raise SimulationError(
            f"one run of the pipeline changes {scene.branch} {len(observer.moves)} times, and "
            f"readers see the states between them:\n  {moves}\n"
            "Publish once; or give publishes=… if each state is complete"
        )
    expected = Verdict(
        contents=[observer.before, *(move.content for move in observer.moves)],
        moved_by=[move.call.number for move in observer.moves],
        left=leftovers(scene.repository, scene.world),
    )
    second = scene.begin()
    again = scene.run(Process(second.seen))
    if again is not None or second.now != expected.contents[-1]:
        raise SimulationError(
            "the pipeline leaves something else each time it runs from the same initial state: "
            f"{again or differences(expected.contents[-1], second.now)}. Take time and chance out of "
            "it, or give same=… to compare only what counts of a tree"
        )
    return expected, process


def _points(process: Process, kinds: Sequence[Kind]) -> Iterator[Point]:
    if unknown := set(kinds) - set(KINDS):
        raise InvalidInputError(f"kinds {sorted(unknown)}: give some of {KINDS}")
    for kind in kinds:
        for call in process.calls:
            if kind in _OF_WRITES and not call.writes and not process.threaded:
                continue  # equal to the point before it, or to the point before the next call
            yield Point(kind, call)


def _chosen(
    everything: list[Point], expected: Verdict, most: int, seed: int, only: str | None
) -> list[Point]:
    if only is not None:
        chosen = [point for point in everything if point.name == only]
        if not chosen:
            raise InvalidInputError(f"only={only!r}: no such point; give one such as dies-after:57")
        return chosen
    if len(everything) <= most:
        return everything
    near = [
        point
        for point in everything
        if any(abs(point.call.number - number) <= _NEAR for number in expected.moved_by)
    ][:most]
    chance = Random(seed)
    rest = [point for point in everything if point not in near]
    picked = {*near, *chance.sample(rest, most - len(near))}
    return [point for point in everything if point in picked]


def _disturbed(
    scene: _Scene, point: Point, expected: Verdict, *, threaded: bool
) -> tuple[Call | None, list[str]]:
    """Run the pipeline with one disturbance, then again; return the call and the problems."""
    observer = scene.begin()
    process = Process(observer.seen)
    overtaking: list[BaseException | None] = []
    actions: dict[Kind, tuple[Action, Moment]] = {
        "dies-before": (process.die, "before"),
        "dies-after": (process.die, "after"),
        "unavailable": (unavailable, "before"),
        "lost-reply": (lost_reply, "after"),
        "overtaken": (lambda _: overtaking.append(scene.run_again(observer)), "before"),
    }
    action, moment = actions[point.kind]
    process.strike(point.call.number, action, moment=moment)
    error = scene.run(process)
    if process.struck is None and not threaded and not process.threaded:
        reason = "the pipeline did not come to this call again: it does something else each time"
        return None, [reason]
    wrong: list[str] = []
    if error is not None:
        again = scene.run_again(observer)
        if again is not None:
            wrong.append(f"the next attempt fails: {again!r}")
    elif overtaking and overtaking[0] is not None:
        wrong.append(f"the next attempt fails while this one hangs: {overtaking[0]!r}")
    wrong += expected.judge(observer, scene.branch, scene.repository, scene.world)
    return process.struck, wrong


def _describe(point: Point, struck: Call, wrong: Sequence[str], *, threaded: bool) -> str:
    lines = "\n  ".join(wrong)
    again = " several times, because the order of its threads varies" if threaded else ""
    return (
        f"{point.kind} at {struck}:\n  {lines}\nRepeat it{again}: simulate(…, only={point.name!r})"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the clean-up of dead processes out of the log and the console."""
    log = logging.getLogger("graveler")
    level, hook = log.level, threading.excepthook

    def unless_dead(raised: threading.ExceptHookArgs) -> None:
        if not issubclass(raised.exc_type, ProcessDied):
            hook(raised)

    log.setLevel(logging.CRITICAL + 1)
    threading.excepthook = unless_dead
    try:
        yield
    finally:
        log.setLevel(level)
        threading.excepthook = hook
