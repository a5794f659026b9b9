"""The files that a ref has below a prefix, or has gained since a commit."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from graveler.lake import Repository
from graveler.model import ChangeKind
from graveler_airflow.waiting.commits import MOST, named

__all__ = ["find_objects"]


def find_objects(
    repository: Repository, ref: str, prefix: str, *, since: str = "", at_least: int = 1
) -> dict[str, Any] | None:
    """Return which files `ref` has below `prefix`, and in which commit, or None where too few.

    Args:
        repository: Where to look.
        ref: A branch, of which what is committed counts, or any ref expression.
        prefix: Of their paths; a whole path is one, too.
        since: Only those that were added or changed since this commit; "" is all.
        at_least: How many there must be.

    Raises:
        RefNotFoundError: There is no such ref.
        InvalidInputError: There is no such commit as `since`.
    """
    commit = repository.commit(ref)
    if since:
        since = named(repository, since)
    found = list(islice(_paths(repository, since, commit.id, prefix), max(at_least, MOST)))
    if len(found) < at_least:
        return None
    return {
        "repository": repository.name,
        "ref": ref,
        "prefix": prefix,
        "since": since,
        "commit": commit.id,
        "paths": found,
    }


def _paths(repository: Repository, since: str, to: str, prefix: str) -> Iterator[str]:
    if not since:
        for entry in repository.ref(to).entries(prefix):
            yield entry.path
        return
    for change in repository.diff(since, to, prefix=prefix):
        if change.kind is not ChangeKind.REMOVED:
            yield change.path
