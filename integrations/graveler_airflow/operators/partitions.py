"""From commits that a watcher told of to partitions of an asset."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from graveler.errors import InvalidInputError
from graveler_airflow.waiting.commits import partitions_of

__all__ = ["GravelerPartitionsOperator"]


class GravelerPartitionsOperator(BaseOperator):
    """Tells of the partitions that new commits are about, one event for each.

    The DAG that has it is scheduled on a watched asset; its outlet is an asset of partitions,
    on which other DAGs have a run for each hour::

        commits = graveler_asset("flights", "flights")
        hours = graveler_partitions("flights by hour", "flights")

        with DAG("flights_hours", schedule=[commits]):
            GravelerPartitionsOperator(task_id="hours", outlets=[hours])

        @dag(schedule=PartitionedAssetTimetable(assets=hours))
        def report(): ...

    A partition is the one that the publishing DAG run had, else each hour that the commit says
    its files are of, late ones among them. Airflow may fold many commits into one run; their
    partitions are told of all the same, each once.

    Args:
        partitions: From a commit's metadata to its partitions.
        **kwargs: ``outlets`` and what else an operator takes.
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
        """Tell of the partitions, and return the commits of each."""
        commits: dict[str, list[str]] = {}
        count = 0
        for events in context["triggering_asset_events"].values():
            for event in events:
                told = _told(event.extra or {})
                count += bool(told)
                if told:
                    for key in self.partitions(told.get("metadata", told)):
                        commits.setdefault(key, []).append(told["commit"])
        if not commits:
            raise AirflowSkipException(f"none of {count} commits is about a partition")
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                accessor = context["outlet_events"][outlet]
                accessor.extra = {"commits": {key: [*ids] for key, ids in commits.items()}}
                accessor.add_partitions(sorted(commits))
        return commits


def _told(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an event says of a commit: a watcher's, or that of a run's own publish."""
    told = extra.get("payload", extra)
    return told if isinstance(told, Mapping) and "commit" in told else {}
