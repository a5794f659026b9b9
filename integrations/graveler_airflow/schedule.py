"""A schedule whose runs are each about one hour."""

from airflow.sdk import CronPartitionTimetable

__all__ = ["hourly"]


def hourly() -> CronPartitionTimetable:
    """Return a schedule for every hour, whose run is about the hour that has just ended.

    The run of 16:00 has the partition ``2026-11-20T15:00``, and its tasks the ``hour`` 15:00. A
    cron string alone would make it about 16:00, for Airflow 3 gives it no interval; and a key
    with ``/`` in it breaks backfills.
    """
    return CronPartitionTimetable(
        "0 * * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%dT%H:%M"
    )
