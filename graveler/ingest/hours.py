"""Hours: what a tick is called, and which hour a path is of. All of them are UTC."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from graveler.errors import InvalidInputError
from graveler.model import Change, Commit
from graveler.names import hour_text, read_hour

_FOLDER: Final = re.compile(r"(?:^|/)(\d{4})/(\d{2})/(\d{2})/(\d{2}):(\d{2})/")
_MOST_LATE: Final = 1000


def tick_hour(given: datetime | str | None, now: datetime) -> str:
    """Return an hour as it is kept: ``2013-01-01T05:00Z``.

    Args:
        given: A time, or its ISO 8601 text, UTC where it has no zone; seconds are cut off.
            None is the last full hour.
        now: The time now.

    Raises:
        InvalidInputError: A text that is no time.
    """
    if given is None:
        given = now.replace(minute=0) - timedelta(hours=1)
    elif isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise InvalidInputError(
                f"hour {given!r} is no time: give it as 2013-01-01T05:00Z"
            ) from None
    return hour_text(given.replace(tzinfo=UTC) if given.tzinfo is None else given)


def path_hour(path: str) -> str | None:
    """Return the hour of the folder ``YYYY/MM/DD/hh:mm/`` that a path is in, or None."""
    found = _FOLDER.search(path)
    if found is None:
        return None
    try:
        hour = datetime(*map(int, found.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # five numbers
    except ValueError:
        return None
    return hour_text(hour)


def late_hours(changes: Iterable[Change], hour: str) -> tuple[str, ...]:
    """Return the hours before `hour` of which there are files among the changes, sorted.

    The earliest thousand, where there are more: they become a commit's metadata.
    """
    found = {path_hour(change.path) for change in changes if change.after is not None}
    return tuple(sorted(each for each in found if each is not None and each < hour)[:_MOST_LATE])


def commit_hour(commit: Commit) -> str:
    """Return the hour a commit was made for, or in which it was made where nobody says."""
    return commit.metadata.get("hour") or hour_text(commit.created.replace(minute=0))


def hours_of(commits: Iterable[Commit]) -> tuple[str, ...]:
    """Return the hours that commits were made for, each once, sorted."""
    return tuple(sorted({commit_hour(commit) for commit in commits}))


def hours_told(metadata: Mapping[str, str]) -> tuple[datetime, ...]:
    """Return the hours that a commit's metadata says its files are of, in UTC, each once, sorted.

    Those are its own ``hour``, the ``hours`` that were published with it, and the earlier ones
    of which files came ``late``, as ISO 8601 or as a folder, ``2013/01/01/05:00``. What is no time
    is passed over.
    """
    return tuple(sorted(set(_times(metadata))))


def _times(metadata: Mapping[str, str]) -> Iterator[datetime]:
    for key in ("hour", "hours", "late"):
        for text in metadata.get(key, "").split(","):
            time = read_hour(text.strip())
            if time is not None:
                yield time
