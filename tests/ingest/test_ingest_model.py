"""Writes, ticks, refusals, repairs, releases and crashes in any order agree with a plain model."""

import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from graveler.errors import GateFailedError, MergeConflictError
from graveler.gates import gate
from graveler.ingest import HourState
from graveler.testing.faults import ProcessDied, dies
from tests.harness.worlds import ScriptedWorld, tree

PATHS = st.sampled_from(
    [f"input/2013/01/01/{hour:02}:00/{name}" for hour in (3, 4) for name in "ab"]
)
BODIES = st.sampled_from(["good", "fine", "bad", "worse"])
BAD = ("bad", "worse")


@gate
def nothing_bad(candidate):
    """Refuses a tree with a bad file."""
    bad = [entry.path for entry in candidate.entries() if candidate.get(entry.path).decode() in BAD]
    return f"bad: {bad}" if bad else None


def overlay(tree, changes):
    """Return the tree with the changes; None deletes a path."""
    made = {**tree, **changes}
    return {path: body for path, body in made.items() if body is not None}


class Model:
    """Plain dictionaries: the content of main, and the waiting and quarantined changes."""

    def __init__(self, hold):
        self.hold = hold
        self.main = {}
        self.line = {}  # the branch's committed tree
        self.base = {}  # the published part of it
        self.staged = {}
        self.shelves = {}  # name: (tree before, tree now)
        self.waiting = False

    def commit(self):
        changed = overlay(self.line, self.staged)
        differs, before = changed != self.line, self.line
        self.line, self.staged = changed, {}
        self.waiting = self.waiting or differs
        return differs, before

    def candidate(self, base, source):
        """Return the three-way merge into main, or None if both sides changed a path."""
        merged = dict(self.main)
        for path in {*base, *source}:
            if base.get(path) == source.get(path) or source.get(path) == self.main.get(path):
                continue
            if self.main.get(path) != base.get(path):
                return None
            merged = overlay(merged, {path: source.get(path)})
        return merged

    def tick(self):
        """Return the state in which the hour ends."""
        differs, before = self.commit()
        if not self.waiting:
            return HourState.EMPTY
        merged = self.candidate(self.base, self.line)
        if merged is not None and not set(merged.values()) & set(BAD):
            self.main, self.base, self.waiting = merged, self.line, False
            return HourState.PUBLISHED if differs else HourState.EMPTY
        if self.hold:
            return HourState.HELD
        self.line, self.waiting = before, False
        return HourState.QUARANTINED

    def release(self, shelf):
        before, now = self.shelves[shelf]
        merged = self.candidate(before, now)
        if merged is None or set(merged.values()) & set(BAD):
            return False
        self.main = merged
        del self.shelves[shelf]
        caught_up = dict(self.main)
        for path in {*self.base, *self.line}:
            if self.line.get(path) != self.base.get(path):
                caught_up = overlay(caught_up, {path: self.line.get(path)})
        self.line, self.base = caught_up, dict(self.main)
        return True


class _Machine(RuleBasedStateMachine):
    hold = True

    def __init__(self):
        super().__init__()
        self.world = ScriptedWorld()
        self.model = Model(self.hold)
        self.hour = 4

    def repo(self):
        return self.world.repo(scripted=False)

    def ingestion(self, repo=None):
        policy = "hold" if self.hold else "quarantine"
        return (repo or self.repo()).ingestion(gates=[nothing_bad], on_refusal=policy)

    @initialize()
    def begin(self):
        assert self.ingestion().branch.name == "ingest"

    def name(self):
        return f"2013-01-01T{self.hour % 24:02}:{self.hour // 24:02}Z"

    @rule(path=PATHS, body=BODIES)
    def put(self, path, body):
        self.ingestion().branch.put(path, body.encode())
        self.model.staged[path] = body

    @rule(path=PATHS)
    def delete(self, path):
        self.ingestion().branch.delete(path)
        self.model.staged[path] = None

    @rule()
    def tick(self):
        self.hour += 1
        self._ticked(self.ingestion().tick(self.name()))

    @rule(number=st.integers(1, 120))
    def tick_that_dies_and_is_called_again(self, number):
        self.hour += 1
        repo = self.world.repo()
        self.world.script.arm(number, dies)
        with contextlib.suppress(ProcessDied):
            self.ingestion(repo).tick(self.name())
        self.world.script.disarm()
        self._ticked(self.ingestion().tick(self.name()))

    @rule()
    def tick_again(self):
        """Repeat the tick of a finished hour. A held hour is left out, because it takes repairs."""
        before = self.ingestion().hour(self.name())
        if before is not None and self.ingestion().status().held is None:
            again = self.ingestion().tick(self.name())
            assert (again.state, again.published) == (before.state, before.published)

    def _ticked(self, tick):
        before = dict(self.model.line)
        changed = overlay(self.model.line, self.model.staged)
        base = dict(self.model.base)
        state = self.model.tick()
        assert tick.state == state, (tick, state)
        if state is HourState.QUARANTINED:
            (shelf,) = tick.quarantined
            delta = {
                path: changed.get(path)
                for path in {*before, *changed}
                if before.get(path) != changed.get(path)
            }
            self.model.shelves[shelf] = (base, overlay(base, delta))
        assert (tick.refused is not None) == (state in (HourState.HELD, HourState.QUARANTINED))

    @precondition(lambda self: self.model.shelves)
    @rule(data=st.data(), path=PATHS, body=st.sampled_from(["good", "mended", None]))
    def mend(self, data, path, body):
        shelf = data.draw(st.sampled_from(sorted(self.model.shelves)))
        branch = self.repo().branch(shelf)
        if body is None:
            branch.delete(path)
        else:
            branch.put(path, body.encode())
        before, now = self.model.shelves[shelf]
        self.model.shelves[shelf] = before, overlay(now, {path: body})

    @precondition(lambda self: self.model.shelves)
    @rule(data=st.data(), number=st.integers(0, 120))
    def release(self, data, number):
        shelf = data.draw(st.sampled_from(sorted(self.model.shelves)))
        repo = self.world.repo()
        if number:
            self.world.script.arm(number, dies)
        with contextlib.suppress(ProcessDied, GateFailedError, MergeConflictError):
            self.ingestion(repo).release(shelf)
        self.world.script.disarm()
        try:
            self.ingestion().release(shelf)
            released = True
        except (GateFailedError, MergeConflictError):
            released = False
        assert released == self.model.release(shelf)
        if released:
            assert self.ingestion().release(shelf).already

    @invariant()
    def everything_is_where_the_model_has_it(self):
        repo, model = self.repo(), self.model
        assert tree(repo.ref("main")) == model.main
        assert tree(repo.branch("ingest")) == overlay(model.line, model.staged)
        shelves = {
            kept.name: tree(repo.branch(kept.name)) for kept in self.ingestion().quarantined()
        }
        assert shelves == {name: now for name, (_, now) in model.shelves.items()}


class Holding(_Machine):
    """A refusal stops publishing."""


class Quarantining(_Machine):
    """A refused hour is quarantined."""

    hold = False


TestHolding = Holding.TestCase
TestQuarantining = Quarantining.TestCase
for _case in (TestHolding, TestQuarantining):
    _case.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
del _case  # or it would be collected twice
