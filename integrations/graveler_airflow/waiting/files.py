"""Files and hours that sensors and triggers wait for."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from graveler.ingest import HourState
from graveler.lake import Repository
from graveler.model import ChangeKind
from graveler_airflow.waiting.commits import MOST, commit_id_of

_OVER: Final = (HourState.PUBLISHED, HourState.EMPTY)


def find_files(
    repository: Repository, ref: str, prefix: str, *, since: str = "", at_least: int = 1
) -> dict[str, Any] | None:
    """Return the files of `ref` below `prefix` and their commit, or None if there are too few.

    Args:
        repository: The repository.
        ref: A branch, whose committed files count, or any ref expression.
        prefix: The beginning of their paths; a whole path is one, too.
        since: Only files added or changed since this commit; "" is all files.
        at_least: The number of files to wait for.

    Raises:
        RefNotFoundError: There is no such ref.
        InvalidInputError: There is no such commit as `since`.
    """
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
    found = repository.ingestion(branch, into=into).hour(hour)
    if found is None or found.state not in _OVER:
        return None
    return {
        "repository": repository.name,
        "ref": into,
        "hour": found.hour,
        "commit": found.published and found.published.id,
        "late": list(found.late),
    }
