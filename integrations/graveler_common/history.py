"""The commits that a branch gains, along first parents."""

from collections.abc import Iterator

from graveler.errors import NotFoundError, RefNotFoundError
from graveler.lake import Repository
from graveler.model import Commit


def commits_after(repository: Repository, head: Commit, since: Commit | None) -> Iterator[Commit]:
    """Yield the commits of `head` that `since` does not have, newest first.

    Args:
        repository: The repository of both.
        head: The newest commit.
        since: It need not be an ancestor of `head`: the walk ends where the two histories part.
            None walks the whole history.
    """
    for commit in repository.log(head.id, first_parent=True):
        while since is not None and since.generation > commit.generation:
            since = find_commit(repository, since.parents[0]) if since.parents else None
        if since is not None and since.id == commit.id:
            return
        yield commit


def find_commit(repository: Repository, ref: str) -> Commit | None:
    """Return the commit that `ref` names, or None if there is none."""
    try:
        return repository.commit(ref)
    except RefNotFoundError:
        return None


def has_changed(repository: Repository, commit: Commit, prefix: str) -> bool:
    """Return whether a commit changed anything below `prefix`, compared with its first parent.

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
