"""A world of shared stores in memory that any number of lakes open, with a script in between."""

from itertools import count

from graveler.background import Inline
from graveler.clock import FakeClock, SequenceIds
from graveler.committed import Splitting
from graveler.config import LakeConfig
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
