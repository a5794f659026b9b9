"""The operator for a daily DAG: packs branches, reaps runs, collects garbage."""

from typing import Any

from airflow.sdk import Context

from graveler.lake import Repository
from graveler_airflow.operators.base import GravelerOperator
from graveler_common.history import maintenance_row


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

    def act(self, repository: Repository, context: Context) -> dict[str, Any]:
        """Maintain the repository."""
        done = repository.maintain(pack=self.pack, reap=self.reap, gc=self.gc)
        row = maintenance_row(done)
        self.log.info("Packed: %s", row["packed"])
        for reaped in row["reaped"]:
            self.log.warning("Run %(key)r: %(from)s to %(to)s: %(reason)s", reaped)
        self.log.info("Marks of garbage: %s", row["marks"])
        done.check()
        return row
