"""Ingestion branches in Airflow: a tick for the DAG run's hour, releases, and waiting for an hour.

::

    tick = GravelerIngestOperator(task_id="tick", repo="flights", gates=[no_empty_file])
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from graveler.errors import GateFailedError
from graveler.gates import Gate
from graveler.gates.gate import Check
from graveler.ingest import HourState, Tick
from graveler.lake import Repository
from graveler_airflow.dag.context import run_hour, task_metadata
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.links import point_to
from graveler_airflow.operators.base import GravelerOperator
from graveler_airflow.sensors import LakeSensor
from graveler_airflow.waiting.hours import published_hour

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

__all__ = ["GravelerIngestOperator", "GravelerIngestSensor", "GravelerReleaseOperator"]


class GravelerIngestOperator(GravelerOperator):
    """Commits what is staged on an ingestion branch as the DAG run's hour, judges and publishes it.

    Its XCom says what became of the hour: ``hour``, ``state``, ``commit``, ``published``,
    ``late``, ``quarantined``, ``refused``. Where publishing is held the task fails, without a
    retry; mend it on the branch and clear the task. An hour that is set aside lets it succeed,
    with a warning. A second try, or a second scheduler, gets the same answer.

    Args:
        branch: The ingestion branch; made where it is not there.
        into: The branch to publish to.
        gates: Who judges, beside the gates that the branch requires.
        on_refusal: ``hold`` or ``quarantine``.
        hour: A time; that of the DAG run where not given.
        metadata: Of the commits.
        **kwargs: As of `GravelerOperator`.
    """

    template_fields: Sequence[str] = ("repo", "branch", "into", "hour", "metadata")

    def __init__(
        self,
        *,
        branch: str = "ingest",
        into: str = "main",
        gates: Iterable[Gate | Check] = (),
        on_refusal: str = "hold",
        hour: str = "",
        metadata: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.into = into
        self.gates = tuple(gates)
        self.on_refusal = on_refusal
        self.hour = hour
        self.metadata = metadata or {}

    def act(self, repository: Repository, context: Context) -> dict[str, Any]:
        """Tick."""
        ingestion = repository.ingestion(
            self.branch, into=self.into, gates=self.gates, on_refusal=self.on_refusal
        )
        tick = ingestion.tick(
            self.hour or run_hour(context), metadata={**self.metadata, **task_metadata(context)}
        )
        reason = "" if tick.refused is None else tick.refused.reason
        if tick.state is HourState.HELD:
            raise GateFailedError(
                f"{self.branch} is held: {reason}; mend it there and clear this task"
            )
        if tick.state is HourState.QUARANTINED:
            self.log.warning("Hour %s is on %s: %s", tick.hour, ", ".join(tick.quarantined), reason)
        if tick.published is not None:
            point_to(
                self,
                conn_id=self.graveler_conn_id,
                repo=repository.name,
                commit=tick.published,
            )
        return _told(tick)


def _told(tick: Tick) -> dict[str, Any]:
    return {
        "hour": tick.hour,
        "state": str(tick.state),
        "commit": tick.commit and tick.commit.id,
        "published": tick.published and tick.published.id,
        "late": list(tick.late),
        "quarantined": list(tick.quarantined),
        "refused": tick.refused and tick.refused.reason,
    }


class GravelerReleaseOperator(GravelerOperator):
    """Judges a quarantine again and publishes it; its XCom is the id of the commit that holds it.

    A refusal, or a later hour that wrote the same paths, is a failure without a retry.

    Args:
        name: The branch that is in quarantine, as the XCom of the tick names it.
        branch: The ingestion branch that it was taken off.
        into: The branch to publish to.
        gates: Who judges, beside the gates that the branch requires.
        strategy: ``dest-wins`` leaves a later hour's files, ``source-wins`` does not.
        **kwargs: As of `GravelerOperator`.
    """

    template_fields: Sequence[str] = ("repo", "name", "branch", "into")

    def __init__(
        self,
        *,
        name: str,
        branch: str = "ingest",
        into: str = "main",
        gates: Iterable[Gate | Check] = (),
        strategy: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.branch = branch
        self.into = into
        self.gates = tuple(gates)
        self.strategy = strategy

    def act(self, repository: Repository, context: Context) -> Any:
        """Release."""
        ingestion = repository.ingestion(self.branch, into=self.into, gates=self.gates)
        return ingestion.release(
            self.name, strategy=self.strategy, metadata=task_metadata(context)
        ).commit


class GravelerIngestSensor(LakeSensor):
    """Waits until an hour of an ingestion branch is published, and returns by which commit.

    An hour in which nothing came counts, too, unless it is held behind an earlier one: its
    ``commit`` is None. An hour that is held or in quarantine is waited for.

    Args:
        repo: The repository; it need not be there yet.
        branch: The ingestion branch.
        into: The branch it is published to.
        hour: A time; that of the DAG run where not given.
        deferrable: Wait in the triggerer; as Airflow is configured where not given.
        graveler_conn_id: The connection that says where the lake is.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and what else a sensor takes.
    """

    template_fields: Sequence[str] = ("repo", "ref", "branch", "hour")

    def __init__(
        self,
        *,
        repo: str,
        branch: str = "ingest",
        into: str = "main",
        hour: str = "",
        deferrable: bool | None = None,
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            repo=repo,
            ref=into,
            deferrable=deferrable,
            graveler_conn_id=graveler_conn_id,
            **kwargs,
        )
        self.branch = branch
        self.hour = hour

    def look(self, repository: Repository, context: Context) -> dict[str, Any] | None:
        """Return the hour and the commit, or None where it is not published."""
        return published_hour(repository, self.branch, self.ref, self._wanted(context))

    def trigger(self, context: Context) -> "BaseTrigger":
        """Return a trigger that waits for the same hour."""
        from graveler_airflow.ingest_trigger import GravelerIngestTrigger  # noqa: PLC0415 - late

        return GravelerIngestTrigger(
            self.repo,
            self._wanted(context),
            branch=self.branch,
            into=self.ref,
            poll_interval=self.poke_interval,
            graveler_conn_id=self.graveler_conn_id,
        )

    def _wanted(self, context: Context) -> str:
        return self.hour or run_hour(context).isoformat()
