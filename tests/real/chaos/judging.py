"""Comparison of the lake at the end with what the model of `tests.model` says must stand."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from graveler.fsck.check import fsck
from graveler.lake import Repository, RunRecord, RunState
from graveler.model import Commit
from graveler.reads.view import Ref
from tests.model.versions import Version
from tests.real.chaos.hours import (
    GARBAGE,
    ROOTS,
    expected,
    expected_of,
    folder,
    is_digest,
    shared,
)

_PUBLISHED = "graveler.published"
_WORK = "all steps"


@dataclass
class Verdict:
    """The errors that were found, and figures about the rest.

    Attributes:
        wrong: The errors, a line each; empty if there are none.
        figures: The figures by name.
        acts: How often each kind of event occurred.
    """

    wrong: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)
    acts: dict[str, int] = field(default_factory=dict)

    def check(self, holds: bool, what: str) -> None:
        """Record an error if `holds` is false."""
        if not holds:
            self.wrong.append(what)


def state_of_main(repository: Repository, hour: datetime) -> str:
    """Return ``unchanged`` if main has no file of the hour, ``whole``, or the error."""
    view = repository.ref("main")
    there = {
        entry.path: view.get(entry.path)
        for root in ROOTS
        for entry in view.entries(folder(root, hour))
    }
    if not there:
        return "unchanged"
    return "whole" if there == expected(hour) else f"WRONG: {sorted(there)}"


def hours_of(runs: Mapping[str, datetime]) -> set[datetime]:
    """Return the hours of the plan of runs by their keys."""
    return {hour for key, hour in runs.items() if not is_digest(key)}


def standing_runs(repository: Repository, head: str = "main") -> dict[str, datetime]:
    """Return the runs that stand at a head, published and not rolled back since, with their hours."""
    *_, last = _line(repository, head)
    return last.standing


def publishes(repository: Repository) -> dict[str, list[Commit]]:
    """Return the commits with which each run was published on the present line of main."""
    made: dict[str, list[Commit]] = {}
    for commit, *_ in _line(repository, "main"):
        if _PUBLISHED in commit.metadata:
            made.setdefault(commit.metadata["graveler.run"], []).append(commit)
    return made


class _State(NamedTuple):
    """What must stand at a commit: the hours by run, and the model of its files."""

    commit: Commit
    standing: dict[str, datetime]
    version: Version


def _line(repository: Repository, head: str) -> Iterator[_State]:
    """Yield what must stand at each commit that a head has had, oldest first."""
    standing: dict[str, datetime] = {}
    version = Version()
    for commit in reversed(list(repository.log(head, first_parent=True))):
        if _PUBLISHED in commit.metadata:
            key, hour = commit.metadata["graveler.run"], _hour(commit)
            standing[key] = hour
            files = expected_of(key, hour) | shared(hour)
            texts = {path: body.decode() for path, body in files.items()}
            version = version.write((key, _WORK), texts, version.files)
        if rolled_back := commit.metadata.get("graveler.rollback"):
            standing.pop(rolled_back, None)
            version = version.withdraw((rolled_back, _WORK))
        yield _State(commit, dict(standing), version)


def _hour(commit: Commit) -> datetime:
    return datetime.fromisoformat(commit.metadata["hour"])


class Judge:
    """Checks a lake whose orchestrator is idle.

    Args:
        repository: The repository of the lake.
        hours: The hours to publish.
        notes: The folder in which processes recorded their faults.
    """

    def __init__(self, repository: Repository, hours: list[datetime], notes: Path) -> None:
        self._repository = repository
        self._hours = hours
        self._said = list(_said(notes))

    def judge(self, succeeded: Mapping[datetime, bool]) -> Verdict:
        """Check everything, and reap the remaining runs.

        Args:
            succeeded: By hour, whether the orchestrator counts it as published.
        """
        verdict = Verdict()
        self._main(verdict, succeeded)
        self._history(verdict)
        self._zombies(verdict)
        self._reaper(verdict)
        self._repository.gc.run(grace=timedelta(), window=timedelta())
        self._main(verdict, succeeded)  # after the reaper and the collection, which leave main
        self._soundness(verdict)
        return verdict

    def _main(self, verdict: Verdict, succeeded: Mapping[datetime, bool]) -> None:
        view = self._repository.ref("main")
        there = {entry.path: view.get(entry.path) for entry in view.entries("")}
        *_, last = _line(self._repository, "main")
        published = hours_of(last.standing)
        must = {path: text.encode() for path, text in last.version.texts.items()}
        for path in sorted(there.keys() | must.keys()):
            verdict.check(path in must, f"main has {path}, which no published hour holds")
            verdict.check(path in there, f"main lacks {path} of an hour that was published")
        differing = [path for path in there.keys() & must.keys() if there[path] != must[path]]
        verdict.check(not differing, f"other bytes than expected: {sorted(differing)}")
        rows = Counter(
            row[0]
            for path, body in there.items()
            if path.startswith("curated/") and "/part-" in path
            for row in csv.reader(io.StringIO(body.decode()))
        )
        twice = [name for name, times in rows.items() if times > 1]
        verdict.check(not twice, f"rows that are there twice: {sorted(twice)}")
        for hour, done in succeeded.items():
            verdict.check(
                not done or hour in published, f"{hour}: the publisher succeeded, main lacks it"
            )
        verdict.figures |= {
            "hours published": len(published),
            "files on main": len(there),
            "rows on main, each once": len(rows),
        }

    def _history(self, verdict: Verdict) -> None:
        """Check every commit that main has had: each is about one whole hour and nothing else."""
        moves = 0
        known = {path for hour in self._hours for path in shared(hour)}
        for commit, standing, version in _line(self._repository, "main"):
            view = self._repository.ref(commit.id)
            for path in sorted(known):
                verdict.check(
                    view.exists(path) == (path in version.texts),
                    f"{commit.id[:12]}: {len(standing)} runs stand, {path} is there: {view.exists(path)}",
                )
            key = commit.metadata.get("graveler.run") or commit.metadata.get("graveler.rollback")
            if key is None:
                continue
            moves += 1
            hour = _hour(commit)
            changed = {
                change.path for change in self._repository.diff(commit.parents[0], commit.id)
            }
            files = expected_of(key, hour)
            strange = sorted(changed - set(files) - set(shared(hour)))
            verdict.check(not strange, f"{commit.id[:12]} of {hour} also changed {strange}")
            partial = [path for path in files if _text(view, path) != version.texts.get(path)]
            verdict.check(not partial, f"{commit.id[:12]} left {hour} with {partial}")
        verdict.figures["moves of main"] = moves

    def _zombies(self, verdict: Verdict) -> None:
        tries = [line for line in self._said if "tried" in line]
        late = [line for line in tries if line["dead"]]
        for line in late:
            verdict.check(
                bool(line["refused"]), f"{line['zombie']}: {line['tried']} after its time succeeded"
            )
        for name, head in self._heads():
            garbage = [entry.path for entry in head.entries("") if GARBAGE in entry.path]
            damaged = [path for path in garbage if not path.endswith("-more")]
            verdict.check(not damaged, f"{name} has {damaged}, which no step has finished")
        verdict.figures |= {
            "faults that fell": sum("fault" in line for line in self._said),
            "writers that outlived their task": len({line["zombie"] for line in tries}),
            "their writes after their time": len(late),
            "of those refused": sum(bool(line["refused"]) for line in late),
        }

    def _heads(self) -> Iterator[tuple[str, Ref]]:
        """Yield every branch of the repository, except those of steps, which end with the step."""
        runs = {record.branch for record in self._repository.runs.list()}
        for branch in self._repository.branches(hidden=True):
            if branch.name in runs or not branch.hidden:
                yield branch.name, self._repository.ref(branch.name)

    def _reaper(self, verdict: Verdict) -> None:
        runs = self._repository.runs
        now = self._repository.stores.clock.now()
        verdict.figures["states at rest"] = _states(runs.list())
        early = {
            done.key
            for done in runs.reap(now=now)
            if done.from_state is not done.to_state and not runs.get(done.key).expired(now)
        }
        verdict.check(not early, f"would be reaped before their time: {sorted(early)}")
        leases = max((record.lease for record in runs.list()), default=timedelta())
        parked = runs.reap(dry_run=False, now=now + leases * 2)
        verdict.figures["orphans set aside when their lease was over"] = sum(
            done.from_state is not done.to_state for done in parked
        )
        lives = max((record.ttl for record in runs.list()), default=timedelta())
        reaped = runs.reap(dry_run=False, now=now + leases * 2 + lives * 2)
        verdict.figures["parked runs reaped when their time was over"] = sum(
            done.to_state is RunState.REAPED for done in reaped
        )
        verdict.figures["states after the reaper"] = _states(runs.list())
        left = [record.key for record in runs.list() if record.live]
        verdict.check(not left, f"never reaped: {left}")
        branches = [there.name for there in self._repository.branches(hidden=True)]
        verdict.check(branches == ["main"], f"branches that are left: {branches}")

    def _soundness(self, verdict: Verdict) -> None:
        report = fsck(self._repository.stores, objects="checksum")
        for problem in report.problems:
            verdict.wrong.append(f"fsck: {problem}")
        verdict.figures["fsck"] = "clean" if report.sound else "NOT CLEAN"


def _text(view: Ref, path: str) -> str | None:
    return view.get(path).decode() if view.exists(path) else None


def _states(records: Iterator[RunRecord]) -> dict[str, int]:
    return dict(sorted(Counter(str(record.state) for record in records).items()))


def _said(notes: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(notes.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            if line.endswith("}"):  # otherwise its writer was killed during the line
                yield json.loads(line)
