"""Sensors: tasks that wait for commits, for files, or for an hour of an ingestion branch."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.configuration import conf

from graveler.errors import InvalidInputError, RefNotFoundError, RepositoryNotFoundError
from graveler_airflow.dag.context import run_hour
from graveler_airflow.hook import GravelerHook, final_failures
from graveler_airflow.triggers import (
    GravelerCommitTrigger,
    GravelerIngestTrigger,
    GravelerObjectTrigger,
    LakeTrigger,
)


class LakeSensor(BaseSensorOperator):
    """Waits in a worker, in a worker by turns (``mode="reschedule"``), or in the triggerer.

    It keeps no state between two pokes, and every mode calls the same trigger, so that all modes
    return the same.

    Args:
        repo: The repository; it need not exist yet.
        ref: A branch, or any ref expression.
        deferrable: Wait in the triggerer; Airflow's setting ``default_deferrable`` if not given.
        graveler_conn_id: The connection of the lake.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and the other arguments of a sensor.
    """

    ui_color = "#e0ecf4"

    def __init__(
        self,
        *,
        repo: str,
        ref: str = "main",
        deferrable: bool | None = None,
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.repo = repo
        self.ref = ref
        self.graveler_conn_id = graveler_conn_id
        self.deferrable = (
            conf.getboolean("operators", "default_deferrable", fallback=False)
            if deferrable is None
            else deferrable
        )

    @abstractmethod
    def trigger(self, context: Context) -> LakeTrigger:
        """Return the trigger that waits for the same."""

    @property
    def polling(self) -> dict[str, Any]:
        """The arguments that all triggers share."""
        return {"poll_interval": self.poke_interval, "graveler_conn_id": self.graveler_conn_id}

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        row = None
        with final_failures():
            try:
                with GravelerHook(self.graveler_conn_id).repository(self.repo) as repository:
                    row = self.trigger(context).look(repository)
            except (RefNotFoundError, RepositoryNotFoundError) as error:
                self.log.info("It does not exist yet: %s", error)
        return PokeReturnValue(is_done=row is not None, xcom_value=row)

    def execute(self, context: Context) -> Any:
        """Wait, and return what has arrived."""
        if not self.deferrable:
            return super().execute(context)
        result = self.poke(context)
        if not result.is_done:
            self.defer(
                trigger=self.trigger(context),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return result.xcom_value

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return what the trigger reported."""
        return event


class GravelerCommitSensor(LakeSensor):
    """Waits until a ref has gained commits, and returns them as a range of history.

    The result has ``since`` and ``to``, the ids of the commits at both ends, so that a reader
    processes every commit once: ``repo.diff(since, to)`` is what they changed, and ``to`` is the
    next ``since``. It follows first parents: a published run is one commit.

    Args:
        prefix: Only commits that changed something below it.
        since: A ref expression, preferably a commit id: commits after it count. Without it,
            commits after the start of the DAG run, by the branch's log: a sensor that starts
            late or is rescheduled misses none.
        **kwargs: ``repo``, ``ref`` and the other arguments of `LakeSensor`.
    """

    template_fields: Sequence[str] = ("repo", "ref", "prefix", "since")

    def __init__(self, *, prefix: str = "", since: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.prefix = prefix
        self.since = since

    def trigger(self, context: Context) -> LakeTrigger:
        """Return a trigger that starts from the same commit."""
        run = context["dag_run"]
        return GravelerCommitTrigger(
            self.repo,
            self.ref,
            prefix=self.prefix,
            since=self.since,
            begun=(run.start_date or run.run_after).isoformat(),
            once=True,
            **self.polling,
        )


class GravelerObjectSensor(LakeSensor):
    """Waits until a ref has files below a prefix, and returns their paths and the commit.

    Read from that commit (``repo.ref(found["commit"])``): it does not show later changes. Of a
    branch, committed files count.

    Args:
        prefix: The beginning of their paths; a whole path is one, too.
        since: A ref expression: only files added or changed since then count.
        at_least: The number of files to wait for.
        **kwargs: ``repo``, ``ref`` and the other arguments of `LakeSensor`.
    """

    template_fields: Sequence[str] = ("repo", "ref", "prefix", "since")

    def __init__(self, *, prefix: str, since: str = "", at_least: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if at_least < 1:
            raise InvalidInputError(f"at_least {at_least}: wait for one file or more")
        self.prefix = prefix
        self.since = since
        self.at_least = at_least

    def trigger(self, context: Context) -> LakeTrigger:
        """Return a trigger that waits for the same files."""
        return GravelerObjectTrigger(
            self.repo,
            self.prefix,
            ref=self.ref,
            since=self.since,
            at_least=self.at_least,
            **self.polling,
        )


class GravelerIngestSensor(LakeSensor):
    """Waits until an hour of an ingestion branch is published, and returns its commit.

    An hour without files counts as published, with the ``commit`` None, unless it is held behind
    an earlier one. The sensor waits for an hour that is held or in quarantine.

    Args:
        branch: The ingestion branch.
        into: The branch it is published to.
        hour: A time; the hour of the DAG run if not given.
        **kwargs: ``repo`` and the other arguments of `LakeSensor`.
    """

    template_fields: Sequence[str] = ("repo", "ref", "branch", "hour")

    def __init__(
        self, *, branch: str = "ingest", into: str = "main", hour: str = "", **kwargs: Any
    ) -> None:
        super().__init__(ref=into, **kwargs)
        self.branch = branch
        self.hour = hour

    def trigger(self, context: Context) -> LakeTrigger:
        """Return a trigger that waits for the same hour."""
        return GravelerIngestTrigger(
            self.repo,
            self.hour or run_hour(context).isoformat(),
            branch=self.branch,
            into=self.ref,
            **self.polling,
        )
