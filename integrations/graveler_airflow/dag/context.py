"""Values from a DAG run: its hour, the key of its graveler run, metadata of commits, pages."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from graveler.base.names import hour_folder, hour_text
from graveler.errors import InvalidInputError
from graveler.lake import Origin, RunRecord, RunState

if TYPE_CHECKING:
    from airflow.sdk import Context

HANDOVER_NAME = "graveler_name"
"""The name in the conf of a DAG run that was given a run, as a part of the names of its steps."""

_HOUR = timedelta(hours=1)
_SEVERAL = frozenset(",-*/")

PARTITION_KEY = "%Y-%m-%dT%H:%M"
"""The format of the partition keys of hours."""


def run_hour(context: "Context") -> datetime:
    """Return the hour of a DAG run in UTC: its time, rounded down to the hour; see `run_time`."""
    return run_time(context).replace(minute=0, second=0, microsecond=0)


def run_time(context: "Context") -> datetime:
    """Return the time of a DAG run in UTC.

    It is the time of the partition if the timetable has partitions, else the start of the data
    interval, else the logical date, else the time at which the run was due.
    """
    moment = (
        context.get("partition_date")
        or _date_of(context.get("partition_key"))
        or context.get("data_interval_start")
        or context.get("logical_date")
        or context["dag_run"].run_after
    )
    return datetime.fromtimestamp(moment.timestamp(), UTC)


def is_finer_than_hours(timetable: Any) -> bool:
    """Return whether a schedule has several times in an hour."""
    timetable = getattr(timetable, "timetable", timetable)  # of AssetOrTimeSchedule
    times: list[tuple[str, str]] = []
    for each in getattr(timetable, "timetables", [timetable]):
        minute, _, rest = getattr(each, "expression", "").partition(" ")
        delta = getattr(each, "delta", None)
        if _SEVERAL & set(minute) or (isinstance(delta, timedelta) and delta < _HOUR):
            return True
        times.append((minute, rest.partition(" ")[0]))
    return any(
        minute != other and (hour == its or _SEVERAL & set(hour + its))
        for (minute, hour), (other, its) in combinations(times, 2)
    )


def run_folder(context: "Context") -> str:
    """Return the folder of a DAG run: its time to the minute, or its partition if that is no time."""
    try:
        return hour_folder(run_time(context))
    except InvalidInputError:
        return str(context.get("partition_key"))


def _date_of(partition_key: str | None) -> datetime | None:
    """Read a partition key as a time: a run started by an asset may have no partition date."""
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


def run_key(context: Mapping[str, Any], name: str = "") -> str:
    """Return the key of the graveler run: the DAG's id with the partition, or with the run's id.

    A DAG run created again for the same partition has another id but the same key. It resumes the
    work of the first one. Each instance of a mapped task group has its own run, with its index in
    the key.
    """
    run = context["dag_run"]
    key = f"{run.dag_id} {context.get('partition_key') or run.run_id}"
    key = f"{key} {name}" if name else key
    ti = context.get("ti")
    return f"{key}[{ti.map_index}]" if ti is not None and _is_mapped(ti) else key


def run_metadata(context: "Context") -> dict[str, str]:
    """Return the metadata with which the graveler run and its merge commit name the DAG run."""
    run = context["dag_run"]
    hour = ""
    with suppress(InvalidInputError):
        hour = hour_text(run_hour(context))
    return Origin(
        "airflow",
        job=run.dag_id,
        run_id=run.run_id,
        partition=context.get("partition_key") or "",
        code_version=_code_version(context),
        url=dag_run_page(run.dag_id, run.run_id),
        hour=hour,
    ).metadata()


def hint(record: RunRecord) -> str:
    """Return what to do with a run that is not published."""
    if record.state is not RunState.PARKED:
        return "clear the whole DAG run to do it again: nothing of it is kept"
    return (
        "fix the cause and clear the failed tasks with 'only failed' off, and the next attempt resumes "
        f"from that branch; `graveler run show {shlex.quote(record.key)}` shows it"
    )


def task_metadata(context: "Context") -> dict[str, str]:
    """Return the metadata with which a commit names its task and DAG run."""
    ti = context["ti"]
    metadata = run_metadata(context)
    metadata["airflow.task_id"] = ti.task_id
    metadata["airflow.try"] = str(ti.try_number)
    if _is_mapped(ti):
        metadata["airflow.map_index"] = str(ti.map_index)
    if url := task_page(ti):
        metadata["url"] = url
    return metadata


def step_name(context: Mapping[str, Any], opener: str = "") -> str:
    """Return the name of a task's step; each instance of a mapped task has its own step.

    In the DAG that opened the run, it is the id of the task. In a DAG run that was given the run,
    the id of the DAG comes before it, and the name that the conf gives.
    """
    ti, run = context["ti"], context["dag_run"]
    task = f"{ti.task_id}[{ti.map_index}]" if _is_mapped(ti) else str(ti.task_id)
    name = str((getattr(run, "conf", None) or {}).get(HANDOVER_NAME) or "")
    if not name and opener in ("", run.dag_id):
        return task
    return f"{run.dag_id} {name}".strip() + f":{task}"


def step_owner(context: Mapping[str, Any]) -> str:
    """Return the owner of the steps of a DAG run."""
    run = context["dag_run"]
    return f"{run.dag_id} {run.run_id}"


def _is_mapped(ti: Any) -> bool:
    return ti.map_index is not None and ti.map_index >= 0


def _code_version(context: "Context") -> str:
    """Return the version of the task's DAG bundle; "" for bundles without versions."""
    bundle = getattr(context.get("ti"), "bundle_instance", None)
    if bundle is None:
        return ""
    # the run has no pinned version, so use the present version of the bundle
    pinned = bundle.version or (bundle.get_current_version() if bundle.supports_versioning else "")
    return str(pinned or "")


def _base() -> str:
    """Return the setting ``[api] base_url``, or "" if it is not set, because a guess may be wrong."""
    from airflow.sdk.configuration import conf

    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")


def dag_run_page(dag_id: str, run_id: str) -> str:
    """Return the address of a DAG run in Airflow, or ""."""
    base = _base()
    return f"{base}/dags/{quote(dag_id)}/runs/{quote(run_id)}" if base else ""


def task_page(ti: Any) -> str:
    """Return the address of a task's try in Airflow, or ""."""
    return str(ti.log_url) if _base() else ""


def plugin_page(page: str, **query: str) -> str:
    """Return the address of a page of the plugin, or ""."""
    base = _base()
    return f"{base}/graveler/{page}?{urlencode(query)}" if base else ""
