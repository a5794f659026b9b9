"""The operator that turns the commits of a watcher into partitions of an asset."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from graveler.errors import InvalidInputError
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

    The partition of a commit is that of its DAG run, else each hour in its metadata, including late
    hours. Airflow may combine many commits into one run. Each of their partitions gets one event.

    How to use it: ``docs/guides/airflow-operators.md#gravelerpartitionsoperator``.

    Args:
        partitions: A function that returns the partitions for a commit's metadata.
        **kwargs: ``outlets`` and the other arguments of an operator.
    """

    ui_color = "#e0ecf4"

    def __init__(
        self,
        *,
        partitions: Callable[[Mapping[str, str]], Iterable[str]] = partitions_of,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not any(isinstance(outlet, Asset) for outlet in self.outlets):
            raise InvalidInputError(f"{self.task_id}: give the asset of partitions as an outlet")
        self.partitions = partitions

    def execute(self, context: Context) -> dict[str, list[str]]:
        """Make the events, and return the commits of each partition."""
        commits: dict[str, list[str]] = {}
        count = 0
        for events in context["triggering_asset_events"].values():
            for event in events:
                commit = _commit_in(event.extra or {})
                count += bool(commit)
                if commit:
                    for key in self.partitions(commit.get("metadata", commit)):
                        commits.setdefault(key, []).append(commit["commit"])
        if not commits:
            raise AirflowSkipException(f"none of {count} commits is about a partition")
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                accessor = context["outlet_events"][outlet]
                accessor.extra = {"commits": {key: [*ids] for key, ids in commits.items()}}
                accessor.add_partitions(sorted(commits))
        return commits


def _commit_in(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the commit that an event of a watcher or of a publish names."""
    row = extra.get("payload", extra)
    return row if isinstance(row, Mapping) and "commit" in row else {}
