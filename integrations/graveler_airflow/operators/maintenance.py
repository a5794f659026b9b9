"""Operators that look after a repository and its runs, mostly in DAGs of their own."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from graveler.lake import Repository
from graveler.model import Commit
from graveler_airflow.dag.context import task_metadata
from graveler_airflow.operators.base import GravelerOperator
from graveler_common.history import maintenance_row, reaped_row


class GravelerRollbackOperator(GravelerOperator):
    """Rolls back a published run by one commit on its target; its XCom is that commit's id.

    The state of the run does not matter: a later attempt may be open or parked. The task logs the
    publish that it rolls back, and every later run that has read the run's files. If later changes
    overlap, the target does not move, and the task fails and lists them.

    How to use it: ``docs/guides/airflow-operators.md#gravelerrollbackoperator``.

    Args:
        run: The run's key, or the id of the commit that published it.
        into: With a key, only the publish to this branch.
        message: The commit's message.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (*GravelerOperator.template_fields, "run", "into", "message")

    def __init__(self, *, run: str, into: str = "", message: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.into = into
        self.message = message

    def _act(self, repository: Repository, context: Context) -> Commit:
        into = self.into or None
        self.log.info("Rolling back %s", repository.runs.plan_rollback(self.run, into=into))
        done = repository.runs.rollback(
            self.run, into=into, message=self.message or None, metadata=task_metadata(context)
        )
        for reader in done.readers:
            self.log.warning("Run %r has read its files, and is %s", reader.key, reader.state)
        context["ti"].xcom_push(key="readers", value=[reader.key for reader in done.readers])
        self.lineage.note_commit(
            self.graveler_conn_id, repository.stores, done.publish.into, done.commit
        )
        return done.commit


class GravelerReapOperator(GravelerOperator):
    """Parks runs whose lease is over, and removes parked runs whose time to live is over.

    Use it in a separate DAG, once an hour. Opening a run also reaps a few other runs, but a lake in
    which no run is opened needs this task. Its XCom lists the reaped runs.

    How to use it: ``docs/guides/airflow-operators.md#gravelerreapoperator``.

    Args:
        **kwargs: The arguments of `GravelerOperator`.
    """

    def _act(self, repository: Repository, context: Context) -> list[dict[str, str]]:
        rows = [reaped_row(reaped) for reaped in repository.runs.reap(dry_run=False)]
        for row in rows:
            self.log.warning("Run %(key)r: %(from)s to %(to)s: %(reason)s", row)
        return rows


class GravelerMaintainOperator(GravelerOperator):
    """Packs branches by the rule of packing, reaps runs and collects garbage.

    Use it in a separate DAG, once a day. Garbage is collected only if there is a retention rule. A
    branch or a step that fails does not stop the others: the completed work is logged, and then the
    task fails with an error that names the failed part. The XCom lists the completed work.

    How to use it: ``docs/guides/airflow-operators.md#gravelermaintainoperator``.

    Args:
        pack: Pack branches.
        reap: Reap runs.
        gc: Collect garbage.
        **kwargs: The arguments of `GravelerOperator`.
    """

    def __init__(
        self, *, pack: bool = True, reap: bool = True, gc: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pack = pack
        self.reap = reap
        self.gc = gc

    def _act(self, repository: Repository, context: Context) -> dict[str, Any]:
        done = repository.maintain(pack=self.pack, reap=self.reap, gc=self.gc)
        row = maintenance_row(done)
        self.log.info("Packed: %s", row["packed"])
        for reaped in row["reaped"]:
            self.log.warning("Run %(key)r: %(from)s to %(to)s: %(reason)s", reaped)
        self.log.info("Branches that end: %s", row["branches"])
        self.log.info("Marks of garbage: %s", row["marks"])
        done.check()
        return row
