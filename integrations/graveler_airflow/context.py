"""What a DAG run says of itself: its hour, its key, its metadata."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["run_hour", "run_key", "run_metadata"]


def run_hour(context: "Context") -> datetime:
    """Return the hour a DAG run is about, in UTC.

    It is the partition's where the timetable makes partitions, else the beginning of the data
    interval, else the logical date, else when the run was due; floored to the hour.

    Raises:
        InvalidInputError: The run is of a partition that is no time.
    """
    moment = (
        context.get("partition_date")
        or _date_of(context.get("partition_key"))
        or context.get("data_interval_start")
        or context.get("logical_date")
        or context["dag_run"].run_after
    )
    exact = datetime.fromtimestamp(moment.timestamp(), UTC)
    return exact.replace(minute=0, second=0, microsecond=0)


def _date_of(partition_key: str | None) -> datetime | None:
    """Read a partition's key as a time: a run that an asset started may have no date beside it."""
    if partition_key is None:
        return None
    try:
        date = datetime.fromisoformat(partition_key)
    except ValueError:
        raise InvalidInputError(
            f"partition {partition_key!r} is no time, so the run has no hour: name its folder "
            "after the partition instead"
        ) from None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def run_key(context: "Context") -> str:
    """Return the key of the graveler run: the DAG's id and the partition, or the run's id.

    A DAG run that is made anew for the same partition has another id, but the same key: it
    goes on from what the first one left.
    """
    run = context["dag_run"]
    return f"{run.dag_id} {context.get('partition_key') or run.run_id}"


def run_metadata(context: "Context") -> dict[str, str]:
    """Return what the graveler run and its merge commit shall say of the DAG run."""
    run = context["dag_run"]
    metadata = {"airflow.dag_id": run.dag_id, "airflow.run_id": run.run_id}
    if key := context.get("partition_key"):
        metadata["airflow.partition_key"] = key
    with suppress(InvalidInputError):
        metadata["hour"] = f"{run_hour(context):%Y-%m-%dT%H:%MZ}"
    return metadata
