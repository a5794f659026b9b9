"""Sensors: tasks that wait for commits, for files, or for an hour of an ingestion branch."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.triggers.base import StartTriggerArgs

from graveler.base.arguments import count
from graveler.errors import InvalidInputError, RefNotFoundError, RepositoryNotFoundError
from graveler_airflow.failures import final_failures
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.work import Part, TaskWork
from graveler_airflow.operators.base import ReportsLineage
from graveler_airflow.triggers import GravelerTrigger


class LakeSensor(ReportsLineage, BaseSensorOperator):
    """Waits in a worker, with or without ``mode="reschedule"``, or in the triggerer.

    It has no state between two pokes, and every mode calls the same trigger, so all modes return the
    same result.

    Args:
        repo: The repository; it need not exist yet.
        deferrable: Wait in the triggerer; by default Airflow's setting ``default_deferrable``.
        start_from_trigger: With `deferrable`, also start in the triggerer, so that the task needs no
            slot of a worker before something has arrived. The arguments must then be text or
            templates, not outputs of tasks. A mapped sensor starts in a worker.
        graveler_conn_id: The connection of the lake.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and the other arguments of a sensor.
    """

    template_fields: Sequence[str] = ("repo", "graveler_conn_id")
    ui_color = "#e0ecf4"
    waits_for: ClassVar[str]
    """What the trigger waits for."""
    also_given: ClassVar[Sequence[str]] = ()
    """Its arguments that are not templates."""

    def __init__(
        self,
        *,
        repo: str,
        deferrable: bool | None = None,
        start_from_trigger: bool = False,
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.repo = repo
        self.graveler_conn_id = graveler_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.start_from_trigger = self.deferrable and start_from_trigger

    def _start_early(self) -> None:
        """Let the task start in the triggerer; a sensor calls it when it has its arguments."""
        if not self.start_from_trigger:
            return
        for name, value in self._arguments().items():
            if not isinstance(value, (str, int, float)):
                raise InvalidInputError(
                    f"{self.task_id}: {name} is {value!r}, and with start_from_trigger it is text: "
                    "give a template such as {{ ti.xcom_pull(task_ids='…') }}"
                )
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=f"{GravelerTrigger.__module__}.{GravelerTrigger.__qualname__}",
            trigger_kwargs=self._arguments(),
            next_method="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def _arguments(self) -> dict[str, Any]:
        names = ("waits_for", *self.template_fields, *self.also_given)
        given = {name: getattr(self, name) for name in names}
        return {**given, "poll_interval": self.poke_interval}

    def trigger(self, context: Context) -> GravelerTrigger:
        """Return the trigger that waits for the same event."""
        trigger = GravelerTrigger(**self._arguments())
        trigger.begin(context)
        return trigger

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once."""
        row = None
        with final_failures():
            try:
                with GravelerHook(self.graveler_conn_id).opened(self.repo) as repository:
                    row = self.trigger(context).look(repository)
            except (RefNotFoundError, RepositoryNotFoundError) as error:
                self.log.info("It does not exist yet: %s", error)
        return PokeReturnValue(is_done=row is not None, xcom_value=row)

    def execute(self, context: Context) -> Any:
        """Wait, and return the arrival."""
        if not self.deferrable:
            return self.execute_complete(context, super().execute(context))
        result = self.poke(context)
        if not result.is_done:
            self.defer(
                trigger=self.trigger(context),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return self.execute_complete(context, result.xcom_value or {})

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Note the arrival for lineage, and return it."""
        self.lineage = TaskWork()
        commit, prefix = event.get("to") or event.get("commit"), event.get("prefix", "")
        if commit:
            part = Part(self.graveler_conn_id, "", self.repo, event.get("ref", ""), commit, prefix)
            # for a commit without a prefix, the files that it has changed
            since = event.get("since") or ("" if prefix else f"{commit}~1")
            self.lineage.inputs.append(replace(part, changes=(since, commit) if since else None))
        return event


class GravelerCommitSensor(LakeSensor):
    """Waits until a ref has gained commits, and returns them as a range of history.

    The result has ``since`` and ``to``, the ids of the commits at both ends, so that a reader
    processes every commit once: ``repo.diff(since, to)`` has their changes, and ``to`` is the next
    ``since``. It follows first parents, so a published run is one commit.

    How to use it: ``docs/guides/airflow-operators.md#gravelercommitsensor``.

    Args:
        ref: A branch, or any ref expression.
        prefix: Only commits that changed a path below it.
        since: A ref expression, preferably a commit id: commits after it count. Without it,
            commits after the start of the DAG run count, by the branch's log, so that a sensor that
            starts late or is rescheduled misses none.
        **kwargs: ``repo`` and the other arguments of `LakeSensor`.
    """

    waits_for = "commits"
    template_fields: Sequence[str] = (*LakeSensor.template_fields, "ref", "prefix", "since")

    def __init__(
        self, *, ref: str = "main", prefix: str = "", since: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.ref = ref
        self.prefix = prefix
        self.since = since
        self._start_early()


class GravelerObjectSensor(LakeSensor):
    """Waits until a ref has files below a prefix, and returns their paths and the commit.

    Read from that commit (``repo.ref(found["commit"])``), which does not show later changes. Only
    committed files of a branch count.

    How to use it: ``docs/guides/airflow-operators.md#gravelerobjectsensor``.

    Args:
        prefix: The beginning of their paths, or a whole path.
        ref: A branch, or any ref expression.
        since: A ref expression: only files added or changed since then count.
        at_least: The number of files to wait for.
        **kwargs: ``repo`` and the other arguments of `LakeSensor`.
    """

    waits_for = "files"
    also_given = ("at_least",)
    template_fields: Sequence[str] = (*LakeSensor.template_fields, "ref", "prefix", "since")

    def __init__(
        self, *, prefix: str, ref: str = "main", since: str = "", at_least: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.ref = ref
        self.prefix = prefix
        self.since = since
        self.at_least = count(at_least, "at_least", least=1)
        self._start_early()


class GravelerIngestSensor(LakeSensor):
    """Waits until an hour of an ingestion branch is published, and returns its commit.

    An hour without files counts as published, with the ``commit`` None, unless it is held behind
    an earlier one. The sensor waits for an hour that is held or in quarantine.

    How to use it: ``docs/guides/airflow-operators.md#graveleringestsensor``.

    Args:
        branch: The ingestion branch.
        into: The branch to which it is published.
        hour: A time; by default the hour of the DAG run.
        **kwargs: ``repo`` and the other arguments of `LakeSensor`.
    """

    waits_for = "hour"
    template_fields: Sequence[str] = (*LakeSensor.template_fields, "branch", "into", "hour")

    def __init__(
        self, *, branch: str = "ingest", into: str = "main", hour: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.into = into
        self.hour = hour
        self._start_early()
