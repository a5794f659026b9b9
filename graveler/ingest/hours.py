"""Hours in UTC: the name of a tick's hour, the hours of files, and the states that ticks report."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from graveler.base.names import hour_text, read_hour
from graveler.errors import InvalidInputError
from graveler.ingest.records import HourState, Quarantine
from graveler.model import Change, Commit
from graveler.reads.changes import diff_commits
from graveler.reads.stores import Stores
from graveler.runs.record import Refusal

_FOLDER = re.compile(r"(?:^|/)(\d{4})/(\d{2})/(\d{2})/(\d{2}):(\d{2})/")
_MOST_LATE = 1000
_SHOWN = 5
_OWN_PAIRS = ("hour", "hours", "late", "early", "deleted", "released")


class HourKind(StrEnum):
    """What a commit of an ingestion branch has of an hour."""

    ON_TIME = "on-time"
    LATE = "late"
    """The hour is before that of the commit."""
    EARLY = "early"
    """The hour is after that of the commit: its files arrived before the tick ran."""
    DELETED = "deleted"
    """The commit only deletes files of the hour."""


ARRIVED = (HourKind.ON_TIME, HourKind.LATE, HourKind.EARLY)
"""All kinds but `DELETED`."""


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
        set_aside: Paths of the hour that others changed on the target, and that wait in
            quarantine; at most a hundred.
    """

    hour: str
    state: HourState
    commit: Commit | None = None
    published: Commit | None = None
    late: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    refused: Refusal | None = None
    set_aside: tuple[str, ...] = ()


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
    """Return an hour in its stored form: ``2013-01-01T05:00Z``."""
    if given is None:
        given = now.replace(minute=0) - timedelta(hours=1)
    try:
        time = datetime.fromisoformat(given) if isinstance(given, str) else given
        return hour_text(time.replace(tzinfo=UTC) if time.tzinfo is None else time)
    except (ValueError, OverflowError):
        raise InvalidInputError(
            f"hour {str(given)!r} is no time of the years 1 to 9999 in UTC: give it as "
            "2013-01-01T05:00Z"
        ) from None


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


def hour_kinds(changes: Iterable[Change], hour: str) -> dict[str, HourKind]:
    """Return the hours of the folders in which paths changed, sorted, for a commit of `hour`."""
    kinds: dict[str, HourKind] = {}
    for change in changes:
        found = path_hour(change.path)
        if found is not None and (change.after is not None or found not in kinds):
            kinds[found] = HourKind.DELETED if change.after is None else _kind(found, hour)
    return dict(sorted(kinds.items()))


def _kind(found: str, hour: str) -> HourKind:
    if hour in ("", found):
        return HourKind.ON_TIME
    return HourKind.LATE if found < hour else HourKind.EARLY


def late_hours(kinds: Mapping[str, HourKind]) -> tuple[str, ...]:
    """Return the late hours, sorted; at most the earliest thousand, because a record has them."""
    late = (hour for hour, kind in kinds.items() if kind is HourKind.LATE)
    return tuple(late)[:_MOST_LATE]


def commit_hour(commit: Commit) -> str:
    """Return the hour that a commit was made for; without one, the hour in which it was made.

    A commit of a user may have any text as its hour.
    """
    time = read_hour(commit.metadata.get("hour", ""))
    return hour_text(commit.created.replace(minute=0) if time is None else time)


def hours_of(commits: Iterable[Commit]) -> tuple[str, ...]:
    """Return the hours that commits were made for, each once, sorted."""
    return tuple(sorted(set(map(commit_hour, commits))))


def hours_text(hours: tuple[str, ...]) -> str:
    """Return hours as text for a message, at most five of them."""
    more = f" and {len(hours) - _SHOWN} more" if len(hours) > _SHOWN else ""
    return ", ".join(hours[:_SHOWN]) + more


def hour_pairs(hour: str, kinds: Mapping[str, HourKind]) -> dict[str, str]:
    """Return the metadata of a commit about its hours: the hour of the tick, and counts.

    ``hours`` counts the hours that have files in it, ``late``, ``early`` and ``deleted`` those
    kinds. The hours themselves are read from the commit by `commit_hours`.
    """
    counts = Counter(map(str, kinds.values()))
    counts["hours"] = len({hour, *kinds}) - counts[HourKind.DELETED]
    counts.pop(HourKind.ON_TIME, None)
    return {"hour": hour, **{name: str(count) for name, count in counts.items() if count}}


def user_pairs(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a commit except those that ticks and releases write."""
    return {
        key: text
        for key, text in metadata.items()
        if not key.startswith("graveler.") and key not in _OWN_PAIRS
    }


def commit_hours(
    stores: Stores,
    commit: Commit,
    *,
    prefix: str = "",
    kinds: Collection[HourKind | str] = ARRIVED,
) -> dict[datetime, HourKind]:
    """Return the hours that a commit on the target is about, in UTC, sorted, with their kinds.

    They are the hours of the folders ``YYYY/MM/DD/hh:mm/`` in which it changed files, and the hour
    of its tick. The changes are read page by page, and none is left out.

    Args:
        stores: The repository (``repository.stores``).
        commit: A commit that a tick, a release or anything else has made.
        prefix: Only files below it.
        kinds: What counts, relative to the hour in the commit's metadata; by default all but hours
            of which files are only deleted. Without that hour, an hour with files is on time.

    Raises:
        ExpiredError: Garbage collection has removed the commit's tree or that of its first parent.
    """
    own = read_hour(commit.metadata.get("hour", ""))
    hour = "" if own is None else hour_text(own)
    found: dict[str, HourKind] = {}
    if commit.parents:
        parent = stores.refs.commits.get(commit.parents[0])
        for one in (parent, commit):
            stores.refs.expired.check_readable(one.id)
        found = hour_kinds(diff_commits(stores, parent, commit, prefix=prefix), hour)
    if hour and found.get(hour) is not HourKind.DELETED:
        found[hour] = HourKind.ON_TIME
    return {
        datetime.fromisoformat(name): found[name] for name in sorted(found) if found[name] in kinds
    }


def file_hours(metadata: Mapping[str, str]) -> tuple[datetime, ...]:
    """Return the hours that metadata names, in UTC, each once, sorted.

    These are the times in ``hour``, ``hours`` and ``late``, separated by commas. Each is ISO 8601 or
    a folder, ``2013/01/01/05:00``. Other text is ignored. Commits of an ingestion branch have counts
    there: use `commit_hours`.
    """
    return tuple(sorted(set(_times(metadata))))


def _times(metadata: Mapping[str, str]) -> Iterator[datetime]:
    for key in ("hour", "hours", "late"):
        for text in metadata.get(key, "").split(","):
            time = read_hour(text.strip())
            if time is not None:
                yield time
