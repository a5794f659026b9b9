"""A world of shared stores in memory that any number of lakes open, with a script in between."""

from itertools import count

from graveler.background import Inline
from graveler.clock import FakeClock, SequenceIds
from graveler.committed import Splitting
from graveler.config import LakeConfig
from graveler.errors import GravelerError
from graveler.kv.memory import MemoryKVStore
from graveler.lake.lake import Lake
from graveler.testing.faults import FaultyKVStore, FaultyObjectStore, Script

_numbers = count(1)

SMALL = Splitting(min_bytes=0, max_bytes=2_000, raggedness=3)


class ScriptedLake(Lake):
    """A lake whose object stores go through a script as well."""

    def __init__(self, *given, script, **named):
        super().__init__(*given, **named)
        self._script = script

    def _open_store(self, uri):
        return FaultyObjectStore(super()._open_store(uri), self._script)


class World:
    """The stores of a lake, opened as often as a test has processes."""

    def __init__(self):
        self.script = Script()
        self._kv = MemoryKVStore()
        self._clock, self._ids = FakeClock(), SequenceIds()
        self._config = LakeConfig("x", "mem://", f"mem://world{next(_numbers)}", cache_folder=None)
        self.lake(scripted=False).create_repository("flights", splitting=SMALL)

    def lake(self, *, scripted=True):
        """A fresh lake, as another process opens it; the script strikes at scripted ones."""
        script = self.script if scripted else Script()
        return ScriptedLake(
            self._config,
            FaultyKVStore(self._kv, script),
            clock=self._clock,
            ids=self._ids,
            background=Inline(),
            script=script,
        )

    def repo(self, *, scripted=True):
        """The repository of a fresh lake."""
        return self.lake(scripted=scripted).repository("flights")


def tree(view):
    """What a view holds: content by path."""
    return {entry.path: view.get(entry.path).decode() for entry in view.entries()}


def interleave(prepare, operate, meanwhile, check, *, least=3):
    """Run `operate` once for every point at which `meanwhile` can come in between.

    Args:
        prepare: Called with a new world's repository.
        operate: Called with the repository of the scripted process; what it returns, or the
            error it raised, is the outcome.
        meanwhile: Called with the repository of the other process, once, in between.
        check: Called with the world, the outcome and that of `meanwhile`.
        least: How many points there are at the least, lest the test test nothing.
    """
    for number in count(1):
        world = World()
        prepare(world.repo(scripted=False))
        other = world.repo(scripted=False)
        results = []
        repo = world.repo()
        world.script.arm(number, lambda _: results.append(outcome_of(meanwhile, other)))  # noqa: B023
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
