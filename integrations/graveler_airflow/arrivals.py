"""Arrivals in a lake: commits on a branch, files, and hours of an ingestion branch."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.ingest import ARRIVED, INGEST, HourKind, HourState, commit_hours, file_hours
from graveler.lake import Repository
from graveler.model import ChangeKind, Commit
from graveler_airflow.dag.context import PARTITION_KEY
from graveler_common.history import commits_after, find_commit, has_changed

MOST = 250
"""Largest number of commits in one range; the next range has the rest."""


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits that a ref has gained since a commit, along first parents, oldest first.

    `since` may be "", the beginning. A `rewound` ref does not descend from it: it was reset or recreated.
    """

    since: str
    to: str
    commits: tuple[Commit, ...]
    rewound: bool = False

    def row(self, repository: Repository, ref: str, prefix: str = "") -> dict[str, Any]:
        """Return the range as plain values, for XComs and events."""
        rows = [commit_row(repository, commit, prefix) for commit in self.commits]
        return {
            "repository": repository.name,
            "ref": ref,
            "prefix": prefix,
            "since": self.since,
            "to": self.to,
            "rewound": self.rewound,
            "partitions": sorted({key for row in rows for key in row["partitions"]}),
            "commits": rows,
        }


def commits_since(
    repository: Repository, ref: str, since: str = "", *, prefix: str = "", limit: int = MOST
) -> CommitRange:
    """Return the commits that `ref` has gained since the commit `since`.

    The range ends with the last of the `limit` oldest commits that changed a path below `prefix`. If
    the repository has no commit `since`, it has only the head.
    """
    head = repository.commit(ref)
    if head.id == since:
        return CommitRange(since, since, ())
    start = find_commit(repository, since) if since else None
    if since and start is None:
        return CommitRange(since, head.id, (head,), rewound=True)
    commits: deque[Commit] = deque(maxlen=limit + 1)
    oldest = None
    for oldest in commits_after(repository, head, start):
        if has_changed(repository, oldest, prefix):
            commits.append(oldest)
    rewound = since != "" and (oldest is None or oldest.parents[:1] != (since,))
    reported = tuple(reversed(commits))[:limit]
    to = reported[-1].id if len(commits) > limit else head.id
    return CommitRange(since, to, reported, rewound)


def starting_point(repository: Repository, ref: str, *, since: str = "", at: datetime) -> str:
    """Return the id of the commit after which the commits of `ref` count."""
    if since:
        return commit_id_of(repository, since)
    head = repository.commit(ref)
    try:
        return repository.commit(f"{ref}@{{{at.astimezone(UTC).isoformat()}}}").id
    except (InvalidInputError, RefNotFoundError):
        # the branch is younger, or the ref is not a branch and has no log
        created = (move.after for move in repository.moves(ref) if move.action == "create")
        return next(created, None) or head.id


def gained_commits(
    repository: Repository, ref: str, *, prefix: str = "", since: str = "", begun: str
) -> dict[str, Any] | None:
    """Return the commits that `ref` gained since a commit or a time, or None if there is none."""
    start = starting_point(repository, ref, since=since, at=datetime.fromisoformat(begun))
    gained = commits_since(repository, ref, start, prefix=prefix)
    return gained.row(repository, ref, prefix) if gained.commits else None


def commit_id_of(repository: Repository, since: str) -> str:
    """Return the id of the commit that `since` names."""
    try:
        return repository.commit(since).id
    except RefNotFoundError as error:
        raise InvalidInputError(f"since {since!r}: {error}") from error


def commit_row(repository: Repository, commit: Commit, prefix: str = "") -> dict[str, Any]:
    """Return a commit as plain values; for a commit of ingestion with its hours by their kind."""
    row = plain_row(commit)
    if INGEST in commit.metadata:
        hours = commit_hours(repository.stores, commit, prefix=prefix, kinds=tuple(HourKind))
        row["hours"] = {
            kind: [hour.strftime(PARTITION_KEY) for hour in hours if hours[hour] == kind]
            for kind in map(str, HourKind)
        }
        row["partitions"] = sorted(key for kind in ARRIVED for key in row["hours"][kind])
    return row


def plain_row(commit: Commit) -> dict[str, Any]:
    """Return a commit as plain values, with the partitions that its metadata names."""
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
    """Return the keys of the partitions that the metadata of a commit names.

    By default it is the partition of the commit's DAG run. A commit without one has a key for
    each hour in its metadata, as ``2026-11-20T15:00``. Metadata of an ingestion branch name only the
    hour of the tick; the event of the commit has all its hours.
    """
    key = metadata.get("airflow.partition_key", "")
    if key and INGEST not in metadata:
        return (key,)
    return tuple(hour.strftime(PARTITION_KEY) for hour in file_hours(metadata))


_OVER = (HourState.PUBLISHED, HourState.EMPTY)


def find_files(
    repository: Repository, ref: str, prefix: str, *, since: str = "", at_least: int = 1
) -> dict[str, Any] | None:
    """Return the files of `ref` below `prefix` and their commit, or None if there are too few."""
    commit = repository.commit(ref)
    if since:
        since = commit_id_of(repository, since)
    paths = list(islice(_paths(repository, since, commit.id, prefix), max(at_least, MOST)))
    if len(paths) < at_least:
        return None
    return {
        "repository": repository.name,
        "ref": ref,
        "prefix": prefix,
        "since": since,
        "commit": commit.id,
        "paths": paths,
    }


def _paths(repository: Repository, since: str, to: str, prefix: str) -> Iterator[str]:
    if not since:
        for entry in repository.ref(to).entries(prefix):
            yield entry.path
        return
    for change in repository.diff(since, to, prefix=prefix):
        if change.kind is not ChangeKind.REMOVED:
            yield change.path


def published_hour(
    repository: Repository, branch: str, into: str, hour: str
) -> dict[str, Any] | None:
    """Return an hour of an ingestion branch and its commit, or None until it is published.

    An hour without files has the commit None.
    """
    status = repository.ingestion(branch, into=into).hour(hour)
    if status is None or status.state not in _OVER:
        return None
    return {
        "repository": repository.name,
        "ref": into,
        "hour": status.hour,
        "commit": status.published and status.published.id,
        "late": list(status.late),
    }


WAITS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "commits": gained_commits,
    "files": find_files,
    "hour": published_hour,
}
"""What a sensor can wait for: functions that return an arrival, or None as long as there is none."""
