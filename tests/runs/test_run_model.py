"""Calls of any number of attempts, in any order, agree with a plain model of runs."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from graveler.errors import (
    FencedError,
    GateFailedError,
    MergeConflictError,
    NoChangesError,
    ObjectNotFoundError,
    RunStateError,
)
from graveler.gates import gate
from graveler.runs import RunState
from tests.harness.worlds import ScriptedWorld, tree

KEYS = ("05", "06")
STEPS = ("one", "two")


@gate
def never(candidate):
    return "never"


@dataclass
class Fact:
    """A publish: whether it changed the target, the content before, and its rollback's number."""

    changed: bool
    before: dict[str, str]
    rollback: str = ""


@dataclass
class Modelled:
    """The expected state of a run, and the expected content of its target."""

    state: str = "NONE"
    attempt: int = 0
    ended: bool = False  # by the reaper, so its own handle is stale too
    drop: bool = False
    target: dict[str, str] = field(default_factory=dict)
    publishes: list[Fact] = field(default_factory=list)
    rests: bool = False  # it builds on a publish that was rolled back
    committed: dict[str, str] = field(default_factory=dict)
    staged: dict[str, str] = field(default_factory=dict)
    changed: bool = False


class Runs(RuleBasedStateMachine):
    """Each rule is a call as an orchestrator makes it: late, twice, or by any attempt."""

    def __init__(self):
        super().__init__()
        self.world = ScriptedWorld()
        self.repo = self.world.repo(scripted=False)
        self.model = {key: Modelled() for key in KEYS}
        self.handles: list[Any] = []
        self.number = 0

    def fresh(self):
        self.number += 1
        return str(self.number)

    def open_run(self, key, how, drop):
        run = self.model[key]
        self.reap()  # opening reaps some runs by itself
        if run.state not in ("OPEN", "PARKED") or run.rests:
            run.committed, run.changed, run.rests = dict(run.target), False, False
        run.state, run.ended, run.staged, run.drop = "OPEN", False, {}, drop
        run.attempt += 1
        opened = how(on_failure="drop" if drop else "park")
        assert opened.attempt == run.attempt
        self.handles.append(opened.handle)

    @rule(key=st.sampled_from(KEYS), drop=st.booleans())
    def open(self, key, drop):
        self.open_run(key, lambda **terms: self.repo.runs.open(key, **terms), drop)

    @rule(key=st.sampled_from(KEYS))
    def open_for_an_owner(self, key):
        self.open_run(
            key,
            lambda **terms: self.repo.runs.open_or_attach(key, owner=self.fresh(), **terms),
            drop=False,
        )

    @rule(key=st.sampled_from(KEYS), name=st.sampled_from(STEPS))
    def whole_round(self, key, name):
        """Do the most usual round. Random single calls would rarely complete one."""
        self.open(key=key, drop=False)
        run, path, text = self.model[key], f"{key}/{name}/{self.fresh()}", self.fresh()
        attempt = self.repo.runs.attach(self.handles[-1])
        with attempt.step(name) as step:
            step.put(path, text.encode())
        self.has_joined(run, f"{key}/{name}/", {path: text})
        attempt.publish()
        self.is_published(run)

    def has_joined(self, run, folder, files):
        """Replace what the step wrote before."""
        others = {path: text for path, text in run.committed.items() if not path.startswith(folder)}
        run.committed, run.changed = others | files, True

    def is_published(self, run):
        run.publishes.append(Fact(run.changed, run.target))
        run.target, run.state = dict(run.committed), "PUBLISHED"

    def mine(self, data):
        """Return an attempt, its run's model, whether it may write, and whether it is the last."""
        handle = data.draw(st.sampled_from(self.handles))
        run = self.model[handle.key]
        present = handle.attempt == run.attempt and not run.ended
        return self.repo.runs.attach(handle), run, present and run.state == "OPEN", present

    def expect(self, work, allowed, *errors):
        try:
            work()
        except errors:
            assert not allowed
        else:
            assert allowed

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def put(self, data):
        attempt, run, alive, _ = self.mine(data)
        path, text = f"{attempt.key}/direct", self.fresh()
        self.expect(lambda: attempt.put(path, text.encode()), alive, FencedError)
        if alive:
            run.staged[path] = text

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def commit(self, data):
        attempt, run, alive, _ = self.mine(data)
        if alive and not run.staged:
            self.expect(lambda: attempt.commit("x"), False, NoChangesError)
            return
        self.expect(lambda: attempt.commit("x"), alive, FencedError, NoChangesError)
        if alive:
            run.committed |= run.staged
            run.staged, run.changed = {}, True

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), name=st.sampled_from(STEPS), fails=st.booleans())
    def step(self, data, name, fails):
        attempt, run, alive, _ = self.mine(data)
        path, text = f"{attempt.key}/{name}/{self.fresh()}", self.fresh()

        def work():
            with attempt.step(name) as step:
                step.put(path, text.encode())
                if fails:
                    step.get("nowhere")

        def try_it():
            with suppress(ObjectNotFoundError):
                work()

        self.expect(try_it, alive, FencedError)
        if alive and not fails:
            self.has_joined(run, f"{attempt.key}/{name}/", {path: text})

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), refused=st.booleans())
    def publish(self, data, refused):
        attempt, run, alive, present = self.mine(data)
        if alive and run.staged:
            attempt.reset()
            run.staged = {}
        refused = refused and run.changed
        if present and run.state == "PUBLISHED":
            assert attempt.publish([never]).already
            return
        if alive and (refused or run.rests):
            with pytest.raises(MergeConflictError if run.rests else GateFailedError):
                attempt.publish([never])
            run.state = "PARKED"
            return
        self.expect(attempt.publish, alive, FencedError, RunStateError)
        if alive:
            self.is_published(run)

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def close(self, data):
        attempt, run, alive, present = self.mine(data)
        record = attempt.close("the end")
        if alive or (present and run.state == "PARKED"):
            run.state, run.staged = ("REAPED" if run.drop else "PARKED"), {}
        assert record.state == run.state

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def park(self, data):
        attempt, run, alive, _ = self.mine(data)
        same = attempt.attempt == run.attempt
        allowed = same and (run.state in ("PARKED", "PUBLISHED", "ROLLED_BACK") or alive)
        self.expect(lambda: attempt.park("why"), allowed, FencedError)
        if alive:
            run.state, run.staged = "PARKED", {}

    @rule(key=st.sampled_from(KEYS))
    def abandon(self, key):
        run = self.model[key]
        if run.state == "NONE":
            return
        allowed = run.state in ("OPEN", "PARKED", "REAPED")
        self.expect(lambda: self.repo.runs.abandon(key), allowed, RunStateError)
        if allowed:
            run.state, run.staged, run.ended = "REAPED", {}, True

    @rule(key=st.sampled_from(KEYS))
    def roll_back(self, key):
        run = self.model[key]
        if run.state == "NONE":
            return
        last = run.publishes[-1] if run.publishes else Fact(changed=False, before={})
        alike = [fact for fact in run.publishes if fact.changed and fact.rollback == last.rollback]
        self.expect(lambda: self.repo.runs.rollback(key), alike, RunStateError, NoChangesError)
        if not alike or last.rollback:
            return
        run.target = alike[-1].before
        number = self.fresh()
        for fact in run.publishes[run.publishes.index(alike[-1]) :]:
            fact.rollback = fact.rollback or number
        run.rests = run.state in ("OPEN", "PARKED")
        run.state = "ROLLED_BACK" if run.state == "PUBLISHED" else run.state

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def renew(self, data):
        attempt, run, alive, present = self.mine(data)
        allowed = alive or (present and run.state in ("PUBLISHED", "ROLLED_BACK"))
        self.expect(attempt.renew, allowed, FencedError)

    @rule(length=st.sampled_from([timedelta(minutes=4), timedelta(minutes=25), timedelta(days=15)]))
    def time_passes(self, length):
        self.repo.stores.clock.sleep(length.total_seconds())

    @rule()
    def reap(self):
        now = self.repo.stores.clock.now()
        for record in self.repo.runs.list(live=True):
            grace = record.lease / 3 if record.state is RunState.OPEN else timedelta(0)
            if record.expired(now - grace):
                run = self.model[record.key]
                gone = run.state == "PARKED" or run.drop
                run.state, run.staged, run.ended = "REAPED" if gone else "PARKED", {}, True
        self.repo.runs.reap(dry_run=False, now=now)

    @invariant()
    def the_target_holds_what_was_published(self):
        wanted = {path: text for run in self.model.values() for path, text in run.target.items()}
        assert tree(self.repo.ref("main")) == wanted

    @invariant()
    def every_run_is_what_the_model_says(self):
        records = {record.key: record for record in self.repo.runs.list()}
        for key, run in self.model.items():
            if run.state == "NONE":
                assert key not in records
                continue
            record = records[key]
            assert (record.state, record.attempt) == (run.state, run.attempt)
            if run.state in ("OPEN", "PARKED"):
                mine = {
                    path: text
                    for path, text in tree(self.repo.branch(record.branch)).items()
                    if path.startswith(f"{key}/")
                }
                assert mine == run.committed | run.staged
        hidden = {there.name for there in self.repo.branches(hidden=True) if there.hidden}
        assert hidden == {record.branch for record in records.values() if record.live}


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
