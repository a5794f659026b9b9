"""Carries out operations on a repository, and compares the result with the model."""

import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from contextvars import Context
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from graveler.errors import ExpiredError, GravelerError, NoChangesError
from graveler.gates import gate
from graveler.ingest import HourKind, commit_hours
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.model import Commit
from graveler.runs.record import RunHandle
from graveler.runs.steps.step import Step
from graveler.testing.faults import ProcessDied
from tests.harness.faults import dies
from tests.harness.worlds import ScriptedWorld
from tests.model.drawing import HOURS, TEXTS, Operation
from tests.model.ingestion import BAD, INGEST, Ingesting
from tests.model.lake import Run

_TEXT_OF_SIZE = {len(text): text for text in (*TEXTS, BAD)}


@gate
def never(candidate):
    """Refuses."""
    return "never"


@gate
def clean(candidate):
    """Refuses new bad files."""
    changed = (*candidate.added(), *candidate.changed())
    return [entry.path for entry in changed if entry.size == len(BAD)] == []


class _TaskError(Exception):
    """The task of a step fails."""


class Product:
    """The repository of a history."""

    def __init__(self):
        self.world = ScriptedWorld()
        self.repo: Any = self.world.repo(scripted=False)
        self.repo.create_branch("pr")
        self.handles: dict[int, Any] = {}
        self.tries: dict[int, Any] = {}
        self.made: dict[int, str] = {}

    def apply(self, operation: Operation) -> list[str]:
        """Carry out an operation; return "" or the names of the classes of the error, for each part."""
        if operation.name == "race":
            return self._race(**operation.arguments)
        if operation.name == "killed":
            return self._killed(**operation.arguments)
        return [self.one(operation)]

    def one(self, operation: Operation) -> str:
        """Carry out an operation that is no race."""
        try:
            made = getattr(self, operation.name)(**operation.arguments)
        except (GravelerError, _TaskError) as error:
            return "|".join(kind.__name__ for kind in type(error).__mro__)
        except Exception:  # noqa: BLE001 - told like a wrong answer
            return traceback.format_exc()
        if isinstance(made, Commit):
            self.made[operation.label] = made.id
        elif isinstance(made, RunHandle):
            self.handles[operation.label] = made
        elif isinstance(made, Step):
            self.tries[operation.label] = made
        return ""

    def _race(self, first: Operation, second: Operation, call: int) -> list[str]:
        """Carry out the second operation at a call of the first one."""
        told: list[str] = []

        def meanwhile(_call: str) -> None:
            here, self.repo = self.repo, self.world.repo(scripted=False)
            told.append(Context().run(self.one, second))
            self.repo = here

        self.repo = self.world.repo()
        self.world.script.arm(call, meanwhile)
        one = self.one(first)
        self.world.script.disarm()
        self.new_lake()
        return [one, *(told or [self.one(second)])]

    def _killed(self, what: Operation, call: int) -> list[str]:
        """Carry out an operation in a process that dies, and again in another one."""
        self.repo = self.world.repo()
        self.world.script.arm(call, dies)
        with suppress(ProcessDied):
            self.one(what)
        self.world.script.disarm()
        self.new_lake()
        told = self.one(what)
        names = [
            what.arguments[name] for name in ("branch", "on", "into") if name in what.arguments
        ]
        if what.label not in self.made and what.name in ("merge", "revert") and names:
            with suppress(GravelerError):  # the first process may have made it
                self.made[what.label] = self.repo.branch(names[0]).head.id
        return [told]

    def collect(self) -> None:
        """Collect garbage."""
        self.gc()

    def fault(self) -> str:
        """Return what fsck finds, or ""."""
        report = self.repo.fsck(objects="checksum")
        return "" if report.sound else f"fsck: {report}"

    def end(self) -> None:
        """Close the lake."""

    # branches

    def stage(self, branch: str, writes: Mapping[str, str | None]):
        self._put(self.repo.branch(branch), writes)

    def _put(self, there: Any, writes: Mapping[str, str | None]):
        for path, text in writes.items():
            if text is None:
                there.delete(path)
            else:
                there.put(path, text.encode())

    def write(self, branch: str, writes: Mapping[str, str | None]):
        self.stage(branch, writes)
        return self.commit(branch)

    def commit(self, branch: str):
        return self.repo.branch(branch).commit("x")

    def copy(self, branch: str, source: str, old: str, new: str):
        self.repo.branch(branch).copy(source, old, new)

    def rename(self, branch: str, old: str, new: str):
        self.repo.branch(branch).move(old, new)

    def fork(self, branch: str, source: str):
        return self.repo.create_branch(branch, source).head

    def delete(self, branch: str):
        self.repo.delete_branch(branch)

    def undo(self, branch: str):
        self.repo.undo(branch)

    def reset(self, branch: str, to: int):
        self.repo.branch(branch).reset(self.made[to])

    def drop(self, branch: str, folder: str):
        self.repo.branch(branch).reset(paths=[folder])

    def pack(self, branch: str):
        before = self.repo.branch(branch).head
        self.repo.pack(branch, everything=True)
        after = self.repo.branch(branch).head
        return after if after.id != before.id else None

    def merge(self, source: str, into: str):
        return self.repo.merge(source, into).commit

    def revert(self, commit: int, on: str):
        return self.repo.revert(self.made[commit], on, **self._parent(commit))

    def pick(self, commit: int, onto: str):
        return self.repo.cherry_pick(self.made[commit], onto, **self._parent(commit))

    def _parent(self, label: int) -> dict[str, int]:
        parents = self.repo.commit(self.made[label]).parents
        return {"parent": 1} if len(parents) > 1 else {}

    # runs

    def open(self, key: str, into: str, drop: bool, owned: bool = False):
        self.reap()
        options = {"into": into, "on_failure": "drop" if drop else "park"}
        if owned:
            return self.repo.runs.open_or_attach(key, owner=uuid4().hex, **options).handle
        return self.repo.runs.open(key, **options).handle

    def reap(self):
        self.repo.runs.reap(dry_run=False)

    def _run(self, who: int):
        return self.repo.runs.attach(self.handles[who])

    def begin(self, who: int, step: str):
        return self._run(who).step(step)

    def join(self, attempt: int, writes: Mapping[str, str | None]):
        with self.tries[attempt] as step:
            self._put(step, writes)
        return step.result

    def step(self, who: int, step: str, writes: Mapping[str, str | None]):
        with self._run(who).step(step) as started:
            self._put(started, writes)
        return started.result

    def failing_step(self, who: int, step: str, writes: Mapping[str, str | None]):
        run = self._run(who)
        with suppress(_TaskError), run.step(step) as started:
            self._put(started, writes)
            raise _TaskError

    def undo_step(self, who: int, step: str):
        return self._run(who).undo_step(step)

    def direct(self, who: int, writes: Mapping[str, str | None]):
        run = self._run(who)
        self._put(run, writes)
        try:
            return run.commit("x")
        except NoChangesError:
            run.reset()
            raise

    def publish(self, who: int, refuse: bool):
        run = self._run(who)
        result = run.publish([never] if refuse else [])
        return result.commit

    def close(self, who: int):
        self._run(who).close("the end")

    def park(self, who: int):
        self._run(who).park("why")

    def renew(self, who: int):
        self._run(who).renew()

    def abandon(self, key: str):
        self.repo.runs.abandon(key)

    def rollback(self, key: str, into: str = ""):
        return self.repo.runs.rollback(key, **({"into": into} if into else {})).commit

    def rollback_commit(self, commit: int):
        return self.repo.runs.rollback(self.made[commit]).commit

    # ingestion

    def _ingestion(self, **policies: str):
        return self.repo.ingestion(INGEST, gates=[clean], **policies)

    def put(self, writes: Mapping[str, str | None]):
        self._put(self._ingestion().branch, writes)

    def tick(self, hour: str, on_refusal: str, on_conflict: str):
        return self._ingestion(on_refusal=on_refusal, on_conflict=on_conflict).tick(hour).published

    def mend(self, branch: str, writes: Mapping[str, str | None]):
        self.stage(branch, writes)

    def give_up(self, branch: str):
        self.delete(branch)

    def release(self, name: str, strategy: str, on_refusal: str, on_conflict: str):
        ingestion = self._ingestion(on_refusal=on_refusal, on_conflict=on_conflict)
        return ingestion.release(name, strategy=strategy or None).commit

    # the lake

    def time(self, hours: int):
        self.repo.stores.clock.advance(timedelta(hours=hours))

    def gc(self):
        self.repo.gc.run(grace="0s", window="0s")

    def keep(self, hours: int):
        self.repo.gc.keep(days=hours / 24)

    def restore(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "refs"
            self.repo.dump_refs(file)
            self.world.kv = MemoryKVStore()
            self.world.lake(scripted=False).restore_repository(file, take_over=True)
        self.handles, self.tries = {}, {}
        self.new_lake()

    def new_lake(self):
        self.repo = self.world.repo(scripted=False)

    # what is seen

    def seen(self) -> Any:
        """Return the content of all branches and the runs, or the text of an error."""
        try:
            repo = self.repo
            records = list(repo.branches())
            names = [record.name for record in records]
            return {
                "heads": {record.name: record.commit_id for record in records},
                "branches": {name: self.files(repo.branch(name)) for name in names},
                "runs": dict(self._runs()),
                "hours": dict(self._hours()),
                "announced": self._announced(),
            }
        except Exception:  # noqa: BLE001 - told like a wrong answer
            return traceback.format_exc()

    def _runs(self):
        latest = {handle.key: handle for _, handle in sorted(self.handles.items())}
        for key, handle in latest.items():
            record = self.repo.runs.get(key)
            files, joined = {}, set()
            if record.state in ("OPEN", "PARKED"):
                files = self.files(self.repo.branch(record.branch))
                steps = self.repo.runs.attach(handle).joined_steps()
                joined = {name for name, step in steps.items() if step.changed}
            yield key, (str(record.state), record.attempt, files, joined)

    def _hours(self):
        for name in HOURS:
            hour = self._ingestion().hour(name)
            if hour is not None:
                aside, names = sorted(hour.set_aside), sorted(hour.quarantined)
                yield name, (str(hour.state), list(hour.late), aside, names)

    def _announced(self):
        head = self.repo.branch("main").head
        try:
            found = commit_hours(self.repo.stores, head, kinds=list(HourKind))
        except ExpiredError:
            return None
        return {f"{hour:%Y-%m-%dT%H:%MZ}": str(kind) for hour, kind in found.items()}

    def files(self, view: Any):
        """Return the content of a view by path."""
        return {entry.path: _TEXT_OF_SIZE[entry.size] for entry in view.entries()}


def wrong(seen: Any, lake: Ingesting) -> str:
    """Return how what was seen differs from the model, or ""."""
    if isinstance(seen, str):
        return seen
    names, expected = sorted(seen["branches"]), sorted(lake.branches)
    if names != expected:
        return f"branches: {names}, expected {expected}"
    told = [
        _difference(name, seen["branches"][name], there.files())
        for name, there in lake.branches.items()
    ]
    told += [_wrong_run(run, *seen["runs"][key]) for key, run in lake.runs.items() if run.attempt]
    states, hours = lake.states(), seen["hours"]
    told += [
        f"hour {hour}: {hours.get(hour)}, expected {states.get(hour)}"
        for hour in sorted({*states, *hours})
        if hours.get(hour) != states.get(hour)
    ]
    announced = lake.announced()
    if seen["announced"] != announced and announced != {"?": ""}:
        told.append(f"announced: {seen['announced']}, expected {announced}")
    return next(filter(None, told), "")


def _wrong_run(
    run: Run, state: str, attempt: int, files: Mapping[str, str], joined: set[str]
) -> str:
    if (state, attempt) != (run.state, run.attempt):
        return f"run {run.key}: {state} {attempt}, expected {run.state} {run.attempt}"
    if run.state not in ("OPEN", "PARKED"):
        return ""
    expected = run.head.version.texts
    if joined != run.steps():
        return f"run {run.key}: joined steps {sorted(joined)}, expected {sorted(run.steps())}"
    return _difference(f"branch of run {run.key}", files, expected)


def _difference(name: str, found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    if found == expected:
        return ""
    paths = sorted(path for path in {*found, *expected} if found.get(path) != expected.get(path))
    texts = ", ".join(f"{path}: {found.get(path)}, expected {expected.get(path)}" for path in paths)
    return f"{name}: {texts}"
