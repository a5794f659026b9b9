"""Sensors: tasks that wait for commits, for files, or for an hour of an ingestion branch."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from graveler.errors import InvalidInputError
from graveler.lake import Repository
from graveler_airflow.dag.context import run_hour
from graveler_airflow.hook import GravelerHook
from graveler_airflow.waiting.commits import commits_since, starting_point
from graveler_airflow.waiting.files import find_files, published_hour
from graveler_airflow.waiting.sensor import LakeSensor

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


class GravelerCommitSensor(LakeSensor):
    """Waits until a ref has gained commits, and returns them as a range of history.

    The result has ``since`` and ``to``, the ids of the commits at both ends, so that a reader
    processes every commit once: ``repo.diff(since, to)`` is what they changed, and ``to`` is the
    next ``since``. It follows first parents: a published run is one commit.

    Args:
        repo: The repository; it need not exist yet.
        ref: A branch, or any ref expression.
        prefix: Only commits that changed something below it.
        since: A ref expression, preferably a commit id: commits after it count. Without it,
            commits after the start of the DAG run, by the branch's log: a sensor that starts
            late or is rescheduled misses none.
        deferrable: Wait in the triggerer; Airflow's setting ``default_deferrable`` if not given.
        graveler_conn_id: The connection of the lake.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and the other arguments of a sensor.
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
        """Return the range, or None if there is no new commit."""
        since = starting_point(repository, self.ref, since=self.since, at=self._begun(context))
        found = commits_since(repository, self.ref, since, prefix=self.prefix)
        return found.row(self.repo, self.ref, self.prefix) if found.commits else None

    def trigger(self, context: Context) -> "BaseTrigger":
        """Return a trigger that starts from the same commit."""
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
    """Waits until a ref has files below a prefix, and returns their paths and the commit.

    Read from that commit (``repo.ref(found["commit"])``): it does not show later changes.

    Args:
        repo: The repository; it need not exist yet.
        prefix: The beginning of their paths; a whole path is one, too.
        ref: A branch, whose committed files count, or any ref expression.
        since: A ref expression: only files added or changed since then count.
        at_least: The number of files to wait for.
        deferrable: Wait in the triggerer; Airflow's setting ``default_deferrable`` if not given.
        graveler_conn_id: The connection of the lake.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and the other arguments of a sensor.
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
        """Return the files, or None if there are too few."""
        return find_files(
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


class GravelerIngestSensor(LakeSensor):
    """Waits until an hour of an ingestion branch is published, and returns its commit.

    An hour without files counts as published, with the ``commit`` None, unless it is held behind
    an earlier one. The sensor waits for an hour that is held or in quarantine.

    Args:
        repo: The repository; it need not exist yet.
        branch: The ingestion branch.
        into: The branch it is published to.
        hour: A time; the hour of the DAG run if not given.
        deferrable: Wait in the triggerer; Airflow's setting ``default_deferrable`` if not given.
        graveler_conn_id: The connection of the lake.
        **kwargs: ``poke_interval``, ``timeout``, ``mode`` and the other arguments of a sensor.
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
        """Return the hour and the commit, or None until it is published."""
        return published_hour(repository, self.branch, self.ref, self._wanted(context))

    def trigger(self, context: Context) -> "BaseTrigger":
        """Return a trigger that waits for the same hour."""
        from graveler_airflow.triggers import GravelerIngestTrigger  # noqa: PLC0415 - late

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
