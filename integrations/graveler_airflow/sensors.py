"""Sensors: tasks that wait for commits, or for files."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.configuration import conf

from graveler.errors import InvalidInputError, RefNotFoundError, RepositoryNotFoundError
from graveler.lake import Repository
from graveler_airflow.dag.error_policy import final_failures
from graveler_airflow.hook import GravelerHook
from graveler_airflow.waiting.commits import beginning, commits_since
from graveler_airflow.waiting.objects import find_objects

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

__all__ = ["GravelerCommitSensor", "GravelerObjectSensor", "LakeSensor"]


class LakeSensor(BaseSensorOperator):
    """Waits in a worker, in turns with others (``mode="reschedule"``), or in the triggerer.

    It keeps nothing between two looks, so that all three see the same.
    """

    ui_color = "#e0ecf4"

    def __init__(
        self,
        *,
        repo: str,
        ref: str,
        deferrable: bool | None,
        graveler_conn_id: str,
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
    def look(self, repository: Repository, context: Context) -> dict[str, Any] | None:
        """Return what was waited for, or None where it is not there."""

    @abstractmethod
    def trigger(self, context: Context) -> "BaseTrigger":
        """Return what goes on waiting in the triggerer."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        found = None
        with final_failures():
            try:
                with GravelerHook(self.graveler_conn_id).repository(self.repo) as repository:
                    found = self.look(repository, context)
            except (RefNotFoundError, RepositoryNotFoundError) as error:
                self.log.info("Not there yet: %s", error)
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

    def execute(self, context: Context) -> Any:
        """Wait, and return what was waited for."""
        if not self.deferrable:
            return super().execute(context)
        looked = self.poke(context)
        if not looked.is_done:
            self.defer(
                trigger=self.trigger(context),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return looked.xcom_value

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return what the trigger found."""
        return event


class GravelerCommitSensor(LakeSensor):
    """Waits until a ref has gained commits, and returns which: a range of history.

    What it returns has ``since`` and ``to``, the ids between which the commits are, so that a
    reader takes all of them and each once: ``repo.diff(since, to)`` is what they changed, and
    ``to`` is the ``since`` of the next time. Commits go along first parents: a run that is
    published is one.

    Args:
        repo: The repository; it need not be there yet.
        ref: A branch, or any ref expression.
        prefix: Only commits that changed something below it.
        since: A ref expression, best a commit's id: commits after it count. Where not given,
            those after the DAG run began, by the branch's log: none is missed because the
            sensor started late, or was rescheduled.
        deferrable: Wait in the triggerer; as Airflow is configured where not given.
        graveler_conn_id: The connection that says where the lake is.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and what else a sensor takes.
    """

    template_fields: Sequence[str] = ("repo", "ref", "prefix", "since")

    def __init__(
        self,
        *,
        repo: str,
        ref: str = "main",
        prefix: str = "",
        since: str = "",
        deferrable: bool | None = None,
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            repo=repo,
            ref=ref,
            deferrable=deferrable,
            graveler_conn_id=graveler_conn_id,
            **kwargs,
        )
        self.prefix = prefix
        self.since = since

    def look(self, repository: Repository, context: Context) -> dict[str, Any] | None:
        """Return the range, or None where nothing came."""
        since = beginning(repository, self.ref, since=self.since, at=self._begun(context))
        found = commits_since(repository, self.ref, since, prefix=self.prefix)
        return found.told(self.repo, self.ref, self.prefix) if found.commits else None

    def trigger(self, context: Context) -> "BaseTrigger":
        """Return a trigger that goes on from the same commit."""
        from graveler_airflow.triggers import GravelerCommitTrigger  # noqa: PLC0415 - late

        return GravelerCommitTrigger(
            self.repo,
            self.ref,
            prefix=self.prefix,
            since=self.since,
            begun=self._begun(context).isoformat(),
            once=True,
            poll_interval=self.poke_interval,
            graveler_conn_id=self.graveler_conn_id,
        )

    def _begun(self, context: Context) -> datetime:
        run = context["dag_run"]
        return run.start_date or run.run_after


class GravelerObjectSensor(LakeSensor):
    """Waits until a ref has files below a prefix, and returns which, and in which commit.

    Read from that commit (``repo.ref(found["commit"])``), and what comes later does not show.

    Args:
        repo: The repository; it need not be there yet.
        prefix: Of their paths; a whole path is one, too.
        ref: A branch, of which what is committed counts, or any ref expression.
        since: A ref expression: only files that were added or changed since then count.
        at_least: How many there must be.
        deferrable: Wait in the triggerer; as Airflow is configured where not given.
        graveler_conn_id: The connection that says where the lake is.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and what else a sensor takes.
    """

    template_fields: Sequence[str] = ("repo", "ref", "prefix", "since")

    def __init__(  # noqa: PLR0913 - all but two have a default
        self,
        *,
        repo: str,
        prefix: str,
        ref: str = "main",
        since: str = "",
        at_least: int = 1,
        deferrable: bool | None = None,
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            repo=repo,
            ref=ref,
            deferrable=deferrable,
            graveler_conn_id=graveler_conn_id,
            **kwargs,
        )
        if at_least < 1:
            raise InvalidInputError(f"at_least {at_least}: wait for one file or more")
        self.prefix = prefix
        self.since = since
        self.at_least = at_least

    def look(self, repository: Repository, context: Context) -> dict[str, Any] | None:
        """Return the files, or None where they are too few."""
        return find_objects(
            repository, self.ref, self.prefix, since=self.since, at_least=self.at_least
        )

    def trigger(self, context: Context) -> "BaseTrigger":
        """Return a trigger that looks for the same."""
        from graveler_airflow.triggers import GravelerObjectTrigger  # noqa: PLC0415 - late

        return GravelerObjectTrigger(
            self.repo,
            self.prefix,
            ref=self.ref,
            since=self.since,
            at_least=self.at_least,
            poll_interval=self.poke_interval,
            graveler_conn_id=self.graveler_conn_id,
        )
