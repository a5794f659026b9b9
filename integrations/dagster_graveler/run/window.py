"""The window of time that a run is for: kept with its commits, and told in other partitions."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import dagster as dg
from dagster import DagsterRun

from dagster_graveler.run.context import RunContext, step_of

__all__ = ["keys_of_window", "window_metadata", "window_told"]

_WINDOW: Final = "dagster.window"


def window_metadata(context: RunContext) -> dict[str, str]:
    """Return the pair that says from when to when the run's partitions are, if they are times.

    It is an interval of ISO 8601: ``2013-01-01T05:00Z/2013-01-01T06:00Z``.
    """
    if isinstance(context, DagsterRun):
        return {}
    with suppress(dg.DagsterInvariantViolationError, ValueError):
        window = step_of(context).partition_time_window
        ends = (f"{end.astimezone(UTC):%Y-%m-%dT%H:%MZ}" for end in (window.start, window.end))
        return {_WINDOW: "/".join(ends)}
    return {}


def window_told(metadata: Mapping[str, str]) -> tuple[datetime, datetime] | None:
    """Return begin and end of the window that the metadata of a commit or run say, or None."""
    start, _, end = metadata.get(_WINDOW, "").partition("/")
    with suppress(ValueError):
        return datetime.fromisoformat(start), datetime.fromisoformat(end)
    return None


def keys_of_window(
    definition: dg.TimeWindowPartitionsDefinition, start: datetime, end: datetime
) -> Sequence[str]:
    """Return the partitions that share some time with a window, of whatever length both are."""
    start = max(start, definition.start)
    if start >= end:
        return []
    key = definition.get_partition_key_for_timestamp(start.timestamp())
    first = definition.start_time_for_partition_key(key)
    keys = definition.get_partition_keys_in_time_window(dg.TimeWindow(first, end))
    return [
        key
        for key in keys
        if definition.has_partition_key(key) and definition.end_time_for_partition_key(key) > start
    ]
