"""Operators on runs that are over: taking one back, clearing up after those that nobody ends."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from graveler.lake import Repository
from graveler.model import Commit
from graveler_airflow.dag.context import task_metadata
from graveler_airflow.operators.base import GravelerOperator

__all__ = ["GravelerReapOperator", "GravelerRollbackOperator"]


class GravelerRollbackOperator(GravelerOperator):
    """Takes a published run back, by one commit on its target; its XCom is that commit's id.

    It names in the log every later run that has read what the run wrote. Where later changes
    overlap, the target stays as it is, and the task fails and lists them.

    Args:
        run: The run's key, or the id of the commit that published it.
        message: Of the commit.
        **kwargs: As of `GravelerOperator`.
    """

    template_fields: Sequence[str] = ("repo", "run", "message")

    def __init__(self, *, run: str, message: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.message = message

    def act(self, repository: Repository, context: Context) -> Commit:
        """Roll back, unless an earlier try has."""
        done = repository.runs.rollback(
            self.run, message=self.message or None, metadata=task_metadata(context)
        )
        for reader in done.readers:
            self.log.warning("Run %r has read it, and is %s", reader.key, reader.state)
        context["ti"].xcom_push(key="readers", value=[reader.key for reader in done.readers])
        return done.commit


class GravelerReapOperator(GravelerOperator):
    """Sets runs aside that gave no sign of life, and removes parked ones whose time is over.

    For a DAG of its own, once an hour: opening a run looks after a few of the others, too, but
    a lake in which nobody opens runs has nobody else. Its XCom lists what was done.

    Args:
        **kwargs: As of `GravelerOperator`.
    """

    def act(self, repository: Repository, context: Context) -> list[dict[str, str]]:
        """Reap."""
        done = [
            {
                "key": each.key,
                "branch": each.branch,
                "from": str(each.from_state),
                "to": str(each.to_state),
                "reason": each.reason,
            }
            for each in repository.runs.reap(dry_run=False)
        ]
        for each in done:
            self.log.warning("Run %(key)r: %(from)s to %(to)s: %(reason)s", each)
        return done
