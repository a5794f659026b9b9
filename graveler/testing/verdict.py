"""Checks a lake after a pipeline was disturbed and run again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graveler.lake import Repository
from graveler.testing.observer import Observer
from graveler.testing.world import World

_LONG = 400
_ROUNDS = 4
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an undisturbed run.

    Attributes:
        contents: The relevant content of the branch before the run and after each of its moves.
        moved_by: The numbers of the calls that moved the branch.
        left: Its staged writes at the end, as `leftovers` returns them.
    """

    contents: list[Any]
    moved_by: list[int]
    left: Mapping[str, tuple[str, ...]]

    def judge(
        self, observer: Observer, branch: str, repository: Repository, world: World
    ) -> list[str]:
        """Return the problems of the states that readers saw, and of the present state."""
        wrong = []
        if observer.staged:
            wrong.append(f"it writes to {branch} directly: {observer.staged[0]}")
        now, wanted = observer.now, self.contents[-1]
        stray = next((move for move in observer.moves if move.content not in self.contents), None)
        if stray is not None and stray.content != now:
            text = differences(wanted, stray.content)
            wrong.append(
                f"{branch} shows neither the old nor the new, from {stray.call} on: {text}"
            )
        if now != wanted:
            since = f", since {stray.call}" if stray is not None and stray.content == now else ""
            text = differences(wanted, now)
            wrong.append(f"in the end {branch} is not as after an undisturbed run{since}: {text}")
        wrong += self._left_behind(repository, world)
        report = repository.fsck()
        wrong += [f"fsck: {problem.message}" for problem in report.problems[:_SHOWN]]
        return wrong

    def _left_behind(self, repository: Repository, world: World) -> Iterator[str]:
        left = leftovers(repository, world)
        for name in sorted(left.keys() - self.left.keys()):
            yield f"branch {name!r} is left behind, after the reaper's time"
        for name in sorted(self.left.keys() - left.keys()):
            yield f"branch {name!r} is missing"
        for name in sorted(left.keys() & self.left.keys()):
            if left[name] != self.left[name]:
                more = sorted(set(left[name]) ^ set(self.left[name]))
                yield f"what is staged on {name!r} is not as after an undisturbed run: {more[:_SHOWN]}"


def leftovers(repository: Repository, world: World) -> Mapping[str, tuple[str, ...]]:
    """Return the staged writes by branch, after every run has expired and the reaper has run."""
    for _ in range(_ROUNDS):
        world.clock.advance(days=_LONG)
        if not repository.runs.reap(dry_run=False):
            break
    return {
        record.name: tuple(change.path for change in repository.branch(record.name).uncommitted())
        for record in repository.branches(hidden=True)
    }


def differences(expected: Any, actual: Any) -> str:
    """Return the difference between two contents in a few words."""
    if not isinstance(expected, Mapping) or not isinstance(actual, Mapping):
        return f"{actual!r} instead of {expected!r}"
    lines = []
    for path in sorted(expected.keys() | actual.keys()):
        if path not in actual:
            lines.append(f"{path!r} is missing")
        elif path not in expected:
            lines.append(f"{path!r} should not be there")
        elif expected[path] != actual[path]:
            lines.append(f"{path!r} has another content")
    more = f", and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return ", ".join(lines[:_SHOWN]) + more
