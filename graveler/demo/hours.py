"""Hours as folders: ``output/flights/2013/01/01/10:00/``."""

from datetime import UTC, datetime

from graveler import names
from graveler.errors import InvalidInputError


def utc_hour(hour: datetime) -> datetime:
    """Return the hour in UTC.

    Raises:
        InvalidInputError: It has no time zone, or is not the beginning of an hour.
    """
    if hour.tzinfo is None:
        raise InvalidInputError(f"hour {hour.isoformat()} has no time zone: give it UTC's")
    if (hour.minute, hour.second, hour.microsecond) != (0, 0, 0):
        raise InvalidInputError(f"{hour.isoformat()} is not the beginning of an hour")
    return hour.astimezone(UTC)


def hour_prefix(root: str, hour: datetime) -> str:
    """Return the prefix of the hour's files below `root`: ``<root>/YYYY/MM/DD/hh:mm/``."""
    return f"{root.rstrip('/')}/{names.hour_folder(utc_hour(hour))}/"


def hour_folder(hour: datetime) -> str:
    """Return the hour's folder on a file system, where a colon is asking for trouble."""
    return f"{utc_hour(hour):%Y/%m/%d/%H-%M}"
