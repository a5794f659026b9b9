"""Operators on runs that have ended: rolling one back, reaping those that nobody ended."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from graveler.lake import Repository
from graveler.model import Commit
from graveler_airflow.dag.context import task_metadata
from graveler_airflow.operators.base import GravelerOperator
from graveler_common.rows import reaped_row


class GravelerRollbackOperator(GravelerOperator):
    """Rolls a published run back, by one commit on its target; its XCom is that commit's id.

    It logs every later run that has read the run's files. If later changes overlap, the target
    stays as it is, and the task fails and lists them.

    Args:
        run: The run's key, or the id of the commit that published it.
        message: The commit's message.
        **kwargs: The arguments of `GravelerOperator`.
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
            self.log.warning("Run %r has read its files, and is %s", reader.key, reader.state)
        context["ti"].xcom_push(key="readers", value=[reader.key for reader in done.readers])
        return done.commit


class GravelerReapOperator(GravelerOperator):
    """Parks runs whose lease is over, and removes parked runs whose time to live is over.

    For a DAG of its own, once an hour: opening a run reaps a few of the others, too, but in a
    lake in which nobody opens runs, nothing else does. Its XCom lists what was done.

    Args:
        **kwargs: The arguments of `GravelerOperator`.
    """

    def act(self, repository: Repository, context: Context) -> list[dict[str, str]]:
        """Reap."""
        rows = [reaped_row(reaped) for reaped in repository.runs.reap(dry_run=False)]
        for row in rows:
            self.log.warning("Run %(key)r: %(from)s to %(to)s: %(reason)s", row)
        return rows
