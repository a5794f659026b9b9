"""A world of shared stores in memory that any number of lakes open through a script.

`struck_worlds` and `interleave` strike an operation at its first call and at every `Points.step`-th
call after it. The step is 16 by default, and 1 with ``pytest --every-point``.
"""

from collections.abc import Callable
from contextvars import Context
from itertools import count

from graveler.base.background import Inline
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.errors import GravelerError
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lake.lake import Lake
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.faults import Action, Moment, ProcessDied, lost_reply, unavailable
from tests.harness.faults import FaultyKVStore, FaultyObjectStore, Script, dies

_numbers = count(1)

SMALL = Splitting(min_bytes=0, max_bytes=2_000, raggedness=3)


class Points:
    """The number of calls from one struck call of an operation to the next.

    Attributes:
        step: ``pytest --every-point`` sets it to 1.
    """

    step = 16


class ScriptedLake(Lake):
    """A lake whose object stores also go through a script."""

    def __init__(self, *given, script, threads=0, **named):
        super().__init__(*given, **named)
        self._script, self._threads = script, threads

    def _open_store(self, uri):
        return FaultyObjectStore(super()._open_store(uri), self._script, threads=self._threads)


class ScriptedWorld:
    """The stores of a lake that each process of a test opens.

    Attributes:
        config: The settings of the lakes that are opened next.
        witnessed: Whether the lakes count moves in the storage, as `graveler.open` makes them.
    """

    witnessed = False

    def __init__(self):
        self.script = Script()
        self.kv = MemoryKVStore()
        self._clock, self._ids = FakeClock(), SequenceIds()
        self.config = LakeConfig("x", "mem://", f"mem://world{next(_numbers)}", cache_folder=None)
        self.lake(scripted=False).create_repository("flights", splitting=SMALL)

    def lake(self, *, scripted=True, kv=None, threads=0):
        """A new lake, as another process opens it; the script strikes only at scripted lakes.

        Give a wrapped `kv` of the world for other faults, and `threads` to read and put objects in
        parallel.
        """
        script = self.script if scripted else Script()
        return ScriptedLake(
            self.config,
            kv or FaultyKVStore(self.kv, script),
            clock=self._clock,
            ids=self._ids,
            background=Inline(),
            witnessed=self.witnessed,
            script=script,
            threads=threads,
        )

    def repo(self, *, scripted=True, kv=None, threads=0):
        """The repository of a new lake, which is its attribute `lake`."""
        lake = self.lake(scripted=scripted, kv=kv, threads=threads)
        repo = lake.repository("flights")
        repo.lake = lake
        return repo


def tree(view):
    """The content of a view by path."""
    found = {}
    for entry in view.entries():
        store, key = view.repository.locate(entry.address)
        found[entry.path] = store.get(key).decode()
    return found


_CONDITIONAL = {"set_if", "delete_if"}
_READS = {
    "get",
    "get_many",
    "scan",
    "partitions",
    "get_object",
    "get_range",
    "open",
    "head",
    "list",
}
FAULTS: dict[str, tuple[Action, Moment, Callable[[str], bool]]] = {
    "no-answer": (unavailable, "before", lambda _: True),
    "lost-reply": (lost_reply, "after", lambda call: call not in _READS),
    "lost-write": (lost_reply, "before", lambda call: call in _CONDITIONAL),
    "dies": (dies, "before", lambda _: True),
}
"""The faults: the action, its moment, and the calls at which it differs from the others."""


def struck_worlds(fault, prepare, operate, *, step=None):
    """Yield (world, description of the fault, error or None), with the fault at one call after another.

    Args:
        fault: Name of the fault.
        prepare: Called with a new world's repository.
        operate: Called with the repository of the process with the fault.
        step: Number of calls from one struck call to the next; by default `Points.step`.
    """
    action, moment, differs = FAULTS[fault]

    def struck(number):
        world = ScriptedWorld()
        prepare(world.repo(scripted=False))
        repo = world.repo()
        world.script.arm(number, action, moment=moment)
        failed = None
        try:
            operate(repo)
        except (GravelerError, ProcessDied) as error:
            failed = error
        return world, failed, tuple(world.script.calls), world.script.disarm()

    world, failed, calls, _ = struck(0)
    assert len(calls) > 1
    yield world, "nothing", failed
    differing = [(number, call) for number, call in enumerate(calls, 1) if differs(call)]
    for number, call in differing[:: step or Points.step]:
        world, failed, _, hit = struck(number)
        assert hit == call
        yield world, f"{fault} at {call}, call {number}: {failed!r}", failed


def interleave(prepare, operate, meanwhile, check, *, least=3, step=None):
    """Run `operate` once for each struck point, and `meanwhile` at that point.

    Args:
        prepare: Called with a new world's repository.
        operate: Called with the repository of the scripted process; its outcome is the returned
            value or the raised error.
        meanwhile: Called once at the point, with the repository of the other process.
        check: Called with the world, the outcome, and the outcome of `meanwhile`.
        least: Lowest number of points; with fewer points the test would check nothing.
        step: Number of calls from one struck call to the next; by default `Points.step`.
    """
    for number in count(1, step or Points.step):
        world = ScriptedWorld()
        prepare(world.repo(scripted=False))
        other = world.repo(scripted=False)
        results = []
        repo = world.repo()
        # a new context, because it is another process, even if a gate is judging in this one
        world.script.arm(
            number,
            lambda _: results.append(Context().run(outcome_of, meanwhile, other)),  # noqa: B023
        )
        outcome = outcome_of(operate, repo)
        if not world.script.disarm():
            assert number > least, f"only {number - 1} points were struck"
            return
        check(world, outcome, results[0])


def outcome_of(work, repo):
    try:
        return work(repo)
    except GravelerError as error:
        return error
