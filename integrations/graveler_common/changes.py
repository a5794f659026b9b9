"""What differs between two commits: counted by folder, with the first paths listed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from graveler.errors import NotFoundError
from graveler.lake import Repository
from graveler.model import Change, ChangeKind, Commit

_COUNTED: Final = 20_000
_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class Path:
    """One file that differs.

    Attributes:
        path: Its path.
        kind: ``added``, ``changed`` or ``removed``.
        before: Its size in bytes before, None if it did not exist.
        after: Its size in bytes now, None if it is removed.
    """

    path: str
    kind: str
    before: int | None
    after: int | None


@dataclass(slots=True)
class Folder:
    """What differs in one folder.

    Attributes:
        path: The folder.
        added: Number of files added.
        changed: Number of files changed.
        removed: Number of files removed.
        gained: Bytes of the files added or changed, as they are now.
        lost: Bytes of the files changed or removed, as they were.
    """

    path: str
    added: int = 0
    changed: int = 0
    removed: int = 0
    gained: int = 0
    lost: int = 0

    def count(self, change: Change) -> None:
        """Add a file."""
        if change.kind is ChangeKind.ADDED:
            self.added += 1
        elif change.kind is ChangeKind.CHANGED:
            self.changed += 1
        else:
            self.removed += 1
        self.gained += change.after.size if change.after else 0
        self.lost += change.before.size if change.before else 0

    @property
    def files(self) -> int:
        """Number of files that differ."""
        return self.added + self.changed + self.removed


@dataclass(slots=True)
class Changes:
    """What differs from one commit to another, of bounded size.

    Attributes:
        left: Id of the first commit.
        right: Id of the second commit.
        total: The counts over all folders.
        folders: The counts of each folder, in path order.
        paths: The first files, in path order.
        complete: Whether all differences were counted.
        trouble: Why the commits cannot be compared; "" if they can.
    """

    left: str
    right: str
    total: Folder = field(default_factory=lambda: Folder(""))
    folders: list[Folder] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    complete: bool = True
    trouble: str = ""


def changes_of(repository: Repository, commit: Commit) -> Changes | None:
    """Return what a commit changed against its first parent; None for the first commit."""
    if not commit.parents:
        return None
    return changes_between(repository, commit.parents[0], commit.id)


def changes_between(repository: Repository, left: str, right: str) -> Changes:
    """Return what differs from the commit `left` to the commit `right`."""
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
