"""What differs between two commits, counted, weighed and by folder."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from graveler.errors import NotFoundError
from graveler.lake import Repository
from graveler.model import Change, ChangeKind, Commit

__all__ = ["Changes", "Folder", "Path", "changes_between", "changes_of"]

_COUNTED: Final = 10_000
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Path:
    """One file that differs.

    Attributes:
        path: Where it is.
        kind: ``added``, ``changed`` or ``removed``.
        before: Its size before, None where it was not there.
        after: Its size now, None where it is gone.
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
        added: Files.
        changed: Files.
        removed: Files.
        gained: Bytes of what is there now and was not so before.
        lost: Bytes of what was there and is no more.
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
        """How many files differ."""
        return self.added + self.changed + self.removed


@dataclass(slots=True)
class Changes:
    """All that differs from one commit to another.

    Attributes:
        left: Id of the one.
        right: Id of the other.
        total: Over all folders.
        folders: Folder by folder.
        paths: The first files.
        complete: Whether all were counted; there may be more than anybody wants to count.
        trouble: Why nothing can be said; "" where it can.
    """

    left: str
    right: str
    total: Folder = field(default_factory=lambda: Folder(""))
    folders: list[Folder] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    complete: bool = True
    trouble: str = ""


def changes_of(repository: Repository, commit: Commit) -> Changes | None:
    """Return what a commit changed against its first parent; None of the first commit."""
    if not commit.parents:
        return None
    return changes_between(repository, commit.parents[0], commit.id)


def changes_between(repository: Repository, left: str, right: str) -> Changes:
    """Return what differs from the commit `left` to the commit `right`."""
    found = Changes(left, right)
    try:
        _count(found, repository.diff(left, right))
    except NotFoundError as error:
        found.trouble = str(error)  # collected, or about to be
    return found


def _count(found: Changes, changes: Iterable[Change]) -> None:
    folders: dict[str, Folder] = {}
    for number, change in enumerate(islice(changes, _COUNTED + 1)):
        if number == _COUNTED:
            found.complete = False
            break
        name = change.path.rpartition("/")[0]
        folders.setdefault(name, Folder(name)).count(change)
        found.total.count(change)
        if number < _SHOWN:
            found.paths.append(_path(change))
    found.folders = list(folders.values())


def _path(change: Change) -> Path:
    return Path(
        path=change.path,
        kind=str(change.kind),
        before=change.before.size if change.before else None,
        after=change.after.size if change.after else None,
    )
