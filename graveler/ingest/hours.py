"""Hours in UTC: the name of a tick's hour, the hour of a path, and the states that ticks report."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from graveler.errors import InvalidInputError
from graveler.ingest.records import HourState, Quarantine
from graveler.model import Change, Commit
from graveler.names import hour_text, read_hour
from graveler.runs.record import Refusal

_FOLDER: Final = re.compile(r"(?:^|/)(\d{4})/(\d{2})/(\d{2})/(\d{2}):(\d{2})/")
_MOST_LATE: Final = 1000


@dataclass(frozen=True, slots=True)
class Hour:
    """The state of an hour.

    Attributes:
        hour: The hour, ``2013-01-01T05:00Z``.
        state: Its state.
        commit: The last commit of the hour on the ingestion branch; None if nothing was staged.
        published: The commit on the target that contains the hour's commit, or None.
        late: Earlier hours that have files in the hour's commits.
        quarantined: The branches to which its changes were moved.
        refused: Why the hour is held or in quarantine, or None.
    """

    hour: str
    state: HourState
    commit: Commit | None = None
    published: Commit | None = None
    late: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    refused: Refusal | None = None


class Tick(Hour):
    """The state of an hour after a tick of that hour; every caller gets the same one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Release:
    """The result of the release of a quarantine.

    Attributes:
        name: Name of the quarantine.
        commit: The commit on the target that contains the quarantined changes.
        already: Whether the quarantine was released before this call.
    """

    name: str
    commit: Commit
    already: bool


@dataclass(frozen=True, slots=True)
class Status:
    """The state of an ingestion branch.

    Attributes:
        branch: Its name.
        into: The branch to which it is published.
        staged: Number of paths that are staged for the next hour.
        pending: Hours that are committed and not published.
        held: Why publishing is held, or None.
        quarantined: The quarantines that are not released.
    """

    branch: str
    into: str
    staged: int
    pending: tuple[Hour, ...]
    held: Refusal | None
    quarantined: tuple[Quarantine, ...]


def tick_hour(given: datetime | str | None, now: datetime) -> str:
    """Return an hour in its stored form: ``2013-01-01T05:00Z``.

    Args:
        given: A time or its ISO 8601 text, in UTC if it has no zone; seconds are cut off.
            None is the last full hour.
        now: The present time.

    Raises:
        InvalidInputError: The text is not a time.
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
    folder = _FOLDER.search(path)
    if folder is None:
        return None
    try:
        hour = datetime(*map(int, folder.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # five numbers
    except ValueError:
        return None
    return hour_text(hour)


def late_hours(changes: Iterable[Change], hour: str) -> tuple[str, ...]:
    """Return the hours before `hour` that have files among the changes, sorted.

    At most the earliest thousand are returned, because they become metadata of a commit.
    """
    hours = {path_hour(change.path) for change in changes if change.after is not None}
    return tuple(sorted(late for late in hours if late is not None and late < hour)[:_MOST_LATE])


def commit_hour(commit: Commit) -> str:
    """Return the hour that a commit was made for; without one, the hour in which it was made."""
    return commit.metadata.get("hour") or hour_text(commit.created.replace(minute=0))


def hours_of(commits: Iterable[Commit]) -> tuple[str, ...]:
    """Return the hours that commits were made for, each once, sorted."""
    return tuple(sorted(set(map(commit_hour, commits))))


def hour_pairs(hours: tuple[str, ...], late: Iterable[str]) -> dict[str, str]:
    """Return the metadata that names the hours of a commit, and the earlier hours with files in it."""
    pairs = {"hour": hours[-1], "late": ",".join(late)}
    if len(hours) > 1:
        pairs["hours"] = ",".join(hours)
    return {key: text for key, text in pairs.items() if text}


def user_pairs(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a commit except graveler's own."""
    return {key: text for key, text in metadata.items() if not key.startswith("graveler.")}


def file_hours(metadata: Mapping[str, str]) -> tuple[datetime, ...]:
    """Return the hours that a commit's metadata names for its files, in UTC, each once, sorted.

    These are its own ``hour``, the ``hours`` that were published with it, and the earlier hours
    whose files came ``late``. Each is ISO 8601 or a folder, ``2013/01/01/05:00``. Text that is not
    a time is ignored.
    """
    return tuple(sorted(set(_times(metadata))))


def _times(metadata: Mapping[str, str]) -> Iterator[datetime]:
    for key in ("hour", "hours", "late"):
        for text in metadata.get(key, "").split(","):
            time = read_hour(text.strip())
            if time is not None:
                yield time
