"""Ingestion branches: the tick of the DAG run's hour, and releases from quarantine.

::

    tick = GravelerIngestOperator(task_id="tick", repo="flights", gates=[no_empty_file])
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import Context

from graveler.errors import GateFailedError
from graveler.gates.gate import Check, Gate
from graveler.ingest import HourState
from graveler.lake import Repository
from graveler.repository.strategies import Strategy, check_strategy
from graveler_airflow.dag.context import run_hour, task_metadata
from graveler_airflow.links import point_to
from graveler_airflow.operators.base import GravelerOperator
from graveler_common.history import tick_row


class GravelerIngestOperator(GravelerOperator):
    """Commits the staged writes of an ingestion branch as the DAG run's hour, and publishes them.

    Its XCom is the result of the hour: ``hour``, ``state``, ``commit``, ``published``, ``late``,
    ``quarantined``, ``refused``, ``set_aside``. If publishing is held, the task fails without a retry: fix the
    branch and clear the task. If the hour is quarantined, the task succeeds with a warning. It is
    idempotent: a retry or a second scheduler gets the same result.

    How to use it: ``docs/guides/airflow-operators.md#graveleringestoperator``.

    Args:
        branch: The ingestion branch; created if it does not exist.
        into: The branch to publish to.
        gates: Gates in addition to those that the branch requires.
        on_refusal: ``hold`` or ``quarantine``.
        on_conflict: ``refuse``, ``target`` or ``ingest``: what becomes of paths that others changed.
        hour: A time; by default the hour of the DAG run.
        metadata: Metadata of the commits.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (
        *GravelerOperator.template_fields,
        "branch",
        "into",
        "hour",
        "metadata",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"metadata": "json"}

    def __init__(
        self,
        *,
        branch: str = "ingest",
        into: str = "main",
        gates: Iterable[Gate | Check] = (),
        on_refusal: str = "hold",
        on_conflict: str = "refuse",
        hour: str = "",
        metadata: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.into = into
        self.gates = tuple(gates)
        self.on_refusal = on_refusal
        self.on_conflict = on_conflict
        self.hour = hour
        self.metadata = metadata or {}

    def _act(self, repository: Repository, context: Context) -> dict[str, Any]:
        ingestion = repository.ingestion(
            self.branch,
            into=self.into,
            gates=self.gates,
            on_refusal=self.on_refusal,
            on_conflict=self.on_conflict,
        )
        tick = ingestion.tick(
            self.hour or run_hour(context), metadata={**self.metadata, **task_metadata(context)}
        )
        reason = "" if tick.refused is None else tick.refused.reason
        if tick.state is HourState.HELD:
            raise GateFailedError(
                f"{self.branch} is held: {reason}; fix it there and clear this task"
            )
        if tick.state is HourState.QUARANTINED:
            self.log.warning("Hour %s is on %s: %s", tick.hour, ", ".join(tick.quarantined), reason)
        if tick.published is not None:
            point_to(self, self.graveler_conn_id, repository.name, tick.published)
            self.lineage.note_commit(
                self.graveler_conn_id, repository.stores, self.into, tick.published, self.branch
            )
        return tick_row(tick)


class GravelerReleaseOperator(GravelerOperator):
    """Judges a quarantined hour again and publishes it; its XCom is the id of the commit.

    A refusal, or a later hour that wrote the same paths, is a failure without a retry.

    How to use it: ``docs/guides/airflow-operators.md#gravelerreleaseoperator``.

    Args:
        name: The quarantine branch, as in the XCom of the tick.
        branch: The ingestion branch of the hour.
        into: The branch to publish to.
        gates: Gates in addition to those that the branch requires.
        strategy: ``dest-wins`` keeps the files of a later hour, ``source-wins`` replaces them.
        **kwargs: The arguments of `GravelerOperator`.
    """

    template_fields: Sequence[str] = (*GravelerOperator.template_fields, "name", "branch", "into")
    commits_to = "into"
    merges = "branch"

    def __init__(
        self,
        *,
        name: str,
        branch: str = "ingest",
        into: str = "main",
        gates: Iterable[Gate | Check] = (),
        strategy: Strategy | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.branch = branch
        self.into = into
        self.gates = tuple(gates)
        check_strategy(strategy)
        self.strategy = strategy

    def _act(self, repository: Repository, context: Context) -> Any:
        ingestion = repository.ingestion(self.branch, into=self.into, gates=self.gates)
        return ingestion.release(
            self.name, strategy=self.strategy, metadata=task_metadata(context)
        ).commit
