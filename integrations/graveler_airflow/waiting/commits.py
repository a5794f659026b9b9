"""The commits that a branch has gained: what sensors wait for and triggers tell of."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from graveler.errors import InvalidInputError, NotFoundError, RefNotFoundError
from graveler.ingest import INGEST, hours_told
from graveler.lake import Repository
from graveler.model import Commit

__all__ = ["MOST", "CommitRange", "beginning", "commits_since", "named", "partitions_of", "tell"]

MOST: Final = 250
"""So many commits are told of at once; the rest the next time."""

_KEY_FORMAT: Final = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True, slots=True)
class CommitRange:
    """What a ref has gained since a commit, along first parents.

    Attributes:
        since: Where it begins, without that commit; "" is the beginning of the history.
        to: Where it ends, with that commit.
        commits: Those in between that changed the prefix, oldest first.
        rewound: The ref no longer comes from `since`: it was reset, or made anew.
    """

    since: str
    to: str
    commits: tuple[Commit, ...]
    rewound: bool = False

    def told(self, repository: str, ref: str, prefix: str = "") -> dict[str, Any]:
        """Return the range as plain values, to travel through XCom and events."""
        keys = {key for commit in self.commits for key in partitions_of(commit.metadata)}
        return {
            "repository": repository,
            "ref": ref,
            "prefix": prefix,
            "since": self.since,
            "to": self.to,
            "rewound": self.rewound,
            "partitions": sorted(keys),
            "commits": [tell(commit) for commit in self.commits],
        }


def commits_since(
    repository: Repository, ref: str, since: str = "", *, prefix: str = "", limit: int = MOST
) -> CommitRange:
    """Return the commits that `ref` has gained since the commit `since`.

    Where the repository knows nothing of `since`, that is the head alone.

    Args:
        repository: Where to look.
        ref: A branch, or any ref expression.
        since: A full commit id, or "" for the whole history.
        prefix: Only commits that changed something below it.
        limit: At most so many, the oldest ones; the range then ends with the last of them.

    Raises:
        RefNotFoundError: There is no such ref.
    """
    head = repository.commit(ref)
    if head.id == since:
        return CommitRange(since, since, ())
    mark = _find(repository, since) if since else None
    if since and mark is None:
        return CommitRange(since, head.id, (head,), rewound=True)
    found: deque[Commit] = deque(maxlen=limit + 1)
    rewound = False
    for commit in repository.log(head.id, first_parent=True):
        while mark is not None and mark.generation > commit.generation:
            mark, rewound = _parent(repository, mark), True
        if mark is not None and mark.id == commit.id:
            break
        if not prefix or _touches(repository, commit, prefix):
            found.append(commit)
    else:
        rewound = since != ""
    if len(found) > limit:
        told = tuple(reversed(found))[:limit]
        return CommitRange(since, told[-1].id, told, rewound)
    return CommitRange(since, head.id, tuple(reversed(found)), rewound)


def beginning(repository: Repository, ref: str, *, since: str = "", at: datetime) -> str:
    """Return the id of the commit after which those of `ref` count.

    Args:
        repository: Where to look.
        ref: A branch, or any ref expression.
        since: A ref expression that names it.
        at: Else where `ref` was at this time, by its log; of a branch that was made later it
            is the commit on which it was made.

    Raises:
        RefNotFoundError: There is no such ref.
        InvalidInputError: There is no such commit as `since`.
    """
    if since:
        return named(repository, since)
    head = repository.commit(ref)
    try:
        return repository.commit(f"{ref}@{{{at.astimezone(UTC).isoformat()}}}").id
    except (InvalidInputError, RefNotFoundError):
        # a younger branch, or none, which has no log
        made = (move.after for move in repository.moves(ref) if move.action == "create")
        return next(made, None) or head.id


def named(repository: Repository, since: str) -> str:
    """Return the id of the commit that `since` names.

    Raises:
        InvalidInputError: There is none, and waiting does not bring it.
    """
    try:
        return repository.commit(since).id
    except RefNotFoundError as error:
        raise InvalidInputError(f"since {since!r}: {error}") from error


def _find(repository: Repository, commit: str) -> Commit | None:
    try:
        return repository.commit(commit)
    except RefNotFoundError:
        return None


def _parent(repository: Repository, commit: Commit) -> Commit | None:
    return _find(repository, commit.parents[0]) if commit.parents else None


def _touches(repository: Repository, commit: Commit, prefix: str) -> bool:
    try:
        return any(True for _ in _differing(repository, commit, prefix))
    except NotFoundError:
        return True  # its tree is gone, so nobody can say that it changed nothing there


def _differing(repository: Repository, commit: Commit, prefix: str) -> Iterator[object]:
    if commit.parents:
        return repository.diff(commit.parents[0], commit.id, prefix=prefix)
    return repository.ref(commit.id).entries(prefix)


def tell(commit: Commit) -> dict[str, Any]:
    """Return a commit as plain values."""
    return {
        "commit": commit.id,
        "previous": commit.parents[0] if commit.parents else "",
        "message": commit.message,
        "committer": commit.committer,
        "created": commit.created.isoformat(),
        "metadata": dict(commit.metadata),
        "partitions": list(partitions_of(commit.metadata)),
    }


def partitions_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of the partitions that a commit is about.

    It is the one that its DAG run had. A commit that says its hours has one for each, in the form
    ``2026-11-20T15:00``; so has every commit of an ingestion branch, whichever DAG run made it:
    late files and hours that had to wait are published with the hour of a later run.
    """
    key = metadata.get("airflow.partition_key", "")
    if key and INGEST not in metadata:
        return (key,)
    return tuple(hour.strftime(_KEY_FORMAT) for hour in hours_told(metadata))
