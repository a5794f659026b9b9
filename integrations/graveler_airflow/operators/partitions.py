"""The operator that turns the commits of a watcher into partitions of an asset."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from graveler.base.arguments import choice, count
from graveler.errors import ExpiredError, InvalidInputError
from graveler.ingest import ARRIVED, HourKind
from graveler_airflow.arrivals import partitions_of


class GravelerPartitionsOperator(BaseOperator):
    """Makes an event for each partition that new commits are about.

    Its DAG is scheduled on a watched asset. Its outlet is an asset of partitions, on which other
    DAGs have a run for each hour::

        commits = graveler_asset("flights", "flights")
        hours = graveler_partitions("flights by hour", "flights")

        with DAG("flights_hours", schedule=[commits]):
            GravelerPartitionsOperator(task_id="hours", outlets=[hours])

        @dag(schedule=PartitionedAssetTimetable(assets=hours))
        def report(): ...

    The partition of a commit is that of its DAG run, else the hour in its metadata. A commit of an
    ingestion branch has each hour in which it changed files. Airflow may combine many commits into
    one run. Each of their partitions gets one event.

    How to use it: ``docs/guides/airflow-operators.md#gravelerpartitionsoperator``.

    Args:
        partitions: A function that returns the partitions for a commit's metadata.
        hours: Which hours of a commit of ingestion count: ``on-time``, ``late``, ``early``,
            ``deleted``; by default all but ``deleted``.
        most: The most partitions of one commit; more of them fail the task, which names them.
        **kwargs: ``outlets`` and the other arguments of an operator.
    """

    ui_color = "#e0ecf4"

    def __init__(
        self,
        *,
        partitions: Callable[[Mapping[str, str]], Iterable[str]] = partitions_of,
        hours: Iterable[str] = ARRIVED,
        most: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not any(isinstance(outlet, Asset) for outlet in self.outlets):
            raise InvalidInputError(f"{self.task_id}: give the asset of partitions as an outlet")
        self.partitions = partitions
        self.hours = [choice(kind, "hours", tuple(HourKind)) for kind in hours]
        self.most = count(most, "most", least=1)

    def execute(self, context: Context) -> dict[str, list[str]]:
        """Make the events, and return the commits of each partition."""
        commits: dict[str, list[str]] = {}
        seen = 0
        for events in context["triggering_asset_events"].values():
            for event in events:
                commit = _commit_in(event.extra or {})
                seen += bool(commit)
                for key in self._keys(commit) if commit else ():
                    commits.setdefault(key, []).append(commit["commit"])
        if not commits:
            raise AirflowSkipException(f"none of {seen} commits is about a partition")
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                accessor = context["outlet_events"][outlet]
                accessor.extra = {"commits": {key: [*ids] for key, ids in commits.items()}}
                accessor.add_partitions(sorted(commits))
        return commits

    def _keys(self, commit: Mapping[str, Any]) -> list[str]:
        if "expired" in commit:
            raise ExpiredError(f"the hours of commit {commit['commit']}: {commit['expired']}")
        hours = commit.get("hours")
        if self.partitions is partitions_of and isinstance(hours, Mapping):
            keys = sorted(key for kind in self.hours for key in hours.get(kind, ()))
        else:
            keys = [*self.partitions(commit.get("metadata", commit))]
        if len(keys) > self.most:
            raise InvalidInputError(
                f"commit {commit['commit']} is about {len(keys)} partitions, more than {self.most}: "
                "raise most=, or process them by a backfill"
            )
        return keys


def _commit_in(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the commit that an event of a watcher or of a publish names."""
    row = extra.get("payload", extra)
    return row if isinstance(row, Mapping) and "commit" in row else {}
