"""The history of a repository as plain values: commits, their changes, runs, verdicts, ticks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from graveler.errors import NotFoundError, RefNotFoundError
from graveler.gates import Verdict
from graveler.ingest import Tick
from graveler.lake import Maintenance, Reaped, Repository
from graveler.model import Change, Commit

_COUNTED = 20_000
_LISTED = 200


def commits_after(repository: Repository, head: Commit, since: Commit | None) -> Iterator[Commit]:
    """Yield the commits of `head` that `since` does not have, newest first, to their common ancestor."""
    for commit in repository.log(head.id, first_parent=True):
        while since is not None and since.generation > commit.generation:
            since = find_commit(repository, since.parents[0]) if since.parents else None
        if since is not None and since.id == commit.id:
            return
        yield commit


def own_commits(repository: Repository, ref: str, key: str) -> Iterator[Commit]:
    """Yield the commits that the run `key` has made on its branch, newest first."""
    for commit in repository.log(ref, first_parent=True):
        metadata = commit.metadata
        if metadata.get("graveler.run") != key or "graveler.published" in metadata:
            return
        yield commit


def find_commit(repository: Repository, ref: str) -> Commit | None:
    """Return the commit that `ref` names, or None if there is none."""
    try:
        return repository.commit(ref)
    except RefNotFoundError:
        return None


def has_changed(repository: Repository, commit: Commit, prefix: str) -> bool:
    """Return whether a commit changed a path below `prefix`, compared with its first parent.

    A commit whose tree was collected counts as a change.
    """
    if not prefix:
        return True
    try:
        if not commit.parents:
            return any(True for _ in repository.ref(commit.id).entries(prefix))
        changes = repository.diff(commit.parents[0], commit.id, prefix=prefix)
        return any(True for _ in changes)
    except NotFoundError:
        return True


@dataclass(frozen=True, slots=True)
class Path:
    """One file that differs, with its size in bytes before and after."""

    path: str
    kind: str
    before: int | None
    after: int | None


@dataclass(slots=True)
class Folder:
    """The differences in one folder: numbers of files, and the bytes of their new and old versions."""

    path: str
    added: int = 0
    changed: int = 0
    removed: int = 0
    gained: int = 0
    lost: int = 0

    def count(self, change: Change) -> None:
        """Add a file."""
        kind = str(change.kind)
        setattr(self, kind, getattr(self, kind) + 1)
        self.gained += change.after.size if change.after else 0
        self.lost += change.before.size if change.before else 0

    @property
    def files(self) -> int:
        """Number of files that differ."""
        return self.added + self.changed + self.removed


@dataclass(slots=True)
class Changes:
    """The differences from one commit to another, of bounded size."""

    left: str
    right: str
    total: Folder = field(default_factory=lambda: Folder(""))
    folders: list[Folder] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    complete: bool = True
    trouble: str = ""


def changes_of(repository: Repository, commit: Commit) -> Changes | None:
    """Return the changes of a commit against its first parent; None for the first commit."""
    if not commit.parents:
        return None
    return changes_between(repository, commit.parents[0], commit.id)


def changes_between(repository: Repository, left: str, right: str) -> Changes:
    """Return the differences from the commit `left` to the commit `right`."""
    changes = Changes(left, right)
    try:
        _count(changes, repository.diff(left, right))
    except NotFoundError as error:
        changes.trouble = str(error)  # a commit was collected
    return changes


def _count(changes: Changes, differences: Iterable[Change]) -> None:
    folders: dict[str, Folder] = {}
    for number, change in enumerate(differences):
        if number == _COUNTED:
            changes.complete = False
            break
        name = change.path.rpartition("/")[0]
        folders.setdefault(name, Folder(name)).count(change)
        changes.total.count(change)
        if number < _LISTED:
            before = change.before.size if change.before else None
            after = change.after.size if change.after else None
            changes.paths.append(Path(change.path, str(change.kind), before, after))
    changes.folders = list(folders.values())


def maintenance_row(done: Maintenance) -> dict[str, Any]:
    """Return the result of maintenance as JSON values."""
    return {
        "packed": {
            state.branch: state.packed.commit.id
            for state in done.branches
            if state.packed is not None and state.packed.commit is not None
        },
        "reaped": [reaped_row(reaped) for reaped in done.reaped],
        "branches": {end.branch: end.reason or "deleted" for end in done.ending},
        "marks": [mark.id for mark in done.marks],
    }


def reaped_row(reaped: Reaped) -> dict[str, str]:
    """Return the action of the reaper on one run."""
    return {
        "key": reaped.key,
        "branch": reaped.branch,
        "from": str(reaped.from_state),
        "to": str(reaped.to_state),
        "reason": reaped.reason,
    }


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict; ``died`` marks a gate that gave no answer."""
    return {
        "gate": verdict.gate,
        "passed": verdict.passed,
        "severity": verdict.severity,
        "reason": verdict.reason,
        "died": verdict.died,
        "seconds": round(verdict.seconds, 3),
    }


def refusal_text(verdicts: Iterable[Verdict]) -> str:
    """Return the gates that refuse, with their reasons; "" if none does."""
    return "; ".join(f"{verdict.gate}: {verdict.reason}" for verdict in verdicts if verdict.refuses)


def tick_row(tick: Tick) -> dict[str, Any]:
    """Return the result of an hour's tick."""
    return {
        "hour": tick.hour,
        "state": str(tick.state),
        "commit": tick.commit and tick.commit.id,
        "published": tick.published and tick.published.id,
        "late": list(tick.late),
        "quarantined": list(tick.quarantined),
        "refused": tick.refused and tick.refused.reason,
        "set_aside": list(tick.set_aside),
    }
