"""The window of time that a run is for: stored with its commits, mapped to other partitions."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import dagster as dg

from dagster_graveler.run.context import RunContext, window_of
from graveler_common.rows import hour_text

_WINDOW: Final = "dagster.window"


def window_metadata(context: RunContext) -> dict[str, str]:
    """Return the pair with the window of the run's partitions; none if they are not times.

    The window is an ISO 8601 interval: ``2013-01-01T05:00Z/2013-01-01T06:00Z``.
    """
    window = window_of(context)
    return {_WINDOW: f"{hour_text(window.start)}/{hour_text(window.end)}"} if window else {}


def read_window(metadata: Mapping[str, str]) -> tuple[datetime, datetime] | None:
    """Return the start and end of the window in the metadata of a commit or run, or None."""
    start, _, end = metadata.get(_WINDOW, "").partition("/")
    with suppress(ValueError):
        return datetime.fromisoformat(start), datetime.fromisoformat(end)
    return None


def keys_of_window(
    definition: dg.TimeWindowPartitionsDefinition, start: datetime, end: datetime
) -> Sequence[str]:
    """Return the partitions that overlap a window; the two may differ in length."""
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
