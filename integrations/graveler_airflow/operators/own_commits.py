"""Commits that are made once, however often their task is tried."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from graveler.errors import NoChangesError
from graveler.lake import Repository
from graveler.model import Commit
from graveler_airflow.dag.context import task_metadata

if TYPE_CHECKING:
    from airflow.sdk import Context


_IDENTITY: Final = ("airflow.dag_id", "airflow.run_id", "airflow.task_id", "airflow.map_index")
_READ: Final = 1000


def own_commit(repository: Repository, branch: str, context: "Context") -> Commit | None:
    """Return the latest commit on `branch` that any try of this task made, or None.

    A try that died after its commit has done its work: the next try finds that commit here.
    """
    mine = task_metadata(context)
    for commit in islice(repository.log(branch, first_parent=True), _READ):
        if all(commit.metadata.get(name) == mine.get(name) for name in _IDENTITY):
            return commit
    return None


def commit_once(
    repository: Repository,
    branch: str,
    context: "Context",
    *,
    message: str,
    metadata: Mapping[str, str],
) -> Commit:
    """Commit what is staged on `branch`, or return the commit that an earlier try made.

    Raises:
        NoChangesError: Nothing is staged, and no try of the task has committed.
    """
    try:
        return repository.branch(branch).commit(
            message, metadata={**metadata, **task_metadata(context)}
        )
    except NoChangesError:
        earlier = own_commit(repository, branch, context)
        if earlier is None:
            raise
        return earlier
