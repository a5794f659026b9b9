"""The calendar of hours: what the runs and the folders of a repository say of each hour of a month."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

from graveler.base import arguments as args
from graveler.base.names import hour_of_run, hour_text, named_hour
from graveler.errors import InvalidInputError
from graveler.ingest import Ingestion
from graveler.ingest.records import IngestRecords, branches_of
from graveler.lake import Ref, Repository, RunRecord, RunState
from graveler.model import Prefix
from graveler.pages.drawing import Square, calendar
from graveler.pages.page import limited
from graveler.pages.query import Query
from graveler.runs.record import RunOutline, was_refused

_HOURS, _RUNS = 20_000, 2_000
_FOLDERS, _NAMES, _LISTED = 50, 400, 20
_INGESTIONS, _HELD, _LONGEST = 20, 200, 200
_USUAL, _FILES = "ingest", "files, and no run of this hour"
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_MONTH = re.compile(r"\d{4}-\d{2}")
_YEAR = re.compile(r"\d{4}/")
_TIME = re.compile(r"(\d{2})(?::(\d{2}))?/")

SIGNS = {
    "refused": ("bad", "✕"),
    "missing": ("bad", "?"),
    "parked": ("warn", "!"),
    "open": ("main", "…"),
    "rolled back": ("warn", "↶"),
    "abandoned": ("warn", "-"),
    "published": ("good", "✓"),
}
"""The class and the sign of what an hour may be; what needs a look comes first."""
_STATES = {
    RunState.PARKED: "parked",
    RunState.PUBLISHED: "published",
    RunState.REAPED: "abandoned",
    RunState.ROLLED_BACK: "rolled back",
}


_ORDER = tuple(SIGNS)
_LOOKS = _ORDER[:3]


class Told(NamedTuple):
    """What a run, an ingestion or a folder tells of an hour.

    Attributes:
        kind: A name of `SIGNS`.
        text: What tells it, and why.
        page: The page that has more, with its parameters.
    """

    at: datetime
    kind: str
    text: str
    page: str
    given: Mapping[str, str] = {}


class Hour(NamedTuple):
    """An hour of the calendar."""

    at: datetime
    kind: str
    title: str
    href: str


def kind_of(run: RunRecord | RunOutline) -> str:
    """Return what a run makes of its hour: a name of `SIGNS`."""
    return "refused" if was_refused(run) else _STATES.get(run.state, "open")


def month(repository: Repository, query: Query) -> dict[str, Any]:
    """Return the calendar of a month: by default of the last one of which something is known."""
    view = repository.ref(repository.stores.default_branch)
    text, folders = query.text("text").casefold(), list(_dated_folders(view))
    folder = "" if text else query.text("folder", *folders[:1]).strip("/")
    named, cut = limited(repository.runs.hours(), _HOURS)
    told = list(_of_ingestions(repository, text))
    known = {_hour(each) for each in (*named, *_ends(view, folder))} | {hour.at for hour in told}
    last = query.moment("hour") or max(known, default=query.now)
    since = _chosen(query.text("month")) or _first(last)
    until = _first(since + 31 * _DAY)
    found, more = limited(repository.runs.outlines(since, until), _RUNS)
    told += (_of_run(run) for run in found if text in run.key.casefold())
    by_hour: dict[datetime, list[Told]] = defaultdict(list)
    for each in told:
        by_hour[each.at].append(each)
    for at, path in _stored(view, folder, since, until):
        if at not in by_hour:
            by_hour[at].append(Told(at, "published", _FILES, "files", {"path": path}))
    expects = _expects(by_hour if text else known | by_hour.keys())
    places = (since + number * _HOUR for number in range((until - since) // _HOUR))
    hours = [_worst(query, at, by_hour[at]) for at in places if by_hour[at] or expects(at)]
    kinds = [hour.kind for hour in hours]
    return {
        "drawn": _drawn(since, until, hours) if hours else "",
        "counts": [
            (kind, sign, kinds.count(kind)) for kind, (_, sign) in SIGNS.items() if kind in kinds
        ],
        "looks": limited((hour for hour in hours if hour.kind in _LOOKS), _LISTED),
        "since": since,
        "before": f"{since - _DAY:%Y-%m}",
        "after": f"{until:%Y-%m}",
        "folder": folder,
        "folders": folders,
        "cut": cut or more,
    }


def ingestions(repository: Repository) -> Iterator[Ingestion]:
    """Yield the ingestions that have had a tick, and the one of the usual name before its first tick."""
    stores = repository.stores
    usual = [_USUAL] if stores.refs.branches.find(_USUAL) is not None else []
    for name in dict.fromkeys((*usual, *branches_of(stores))):
        into = IngestRecords(stores, name).standing().into or stores.default_branch
        if into != name:
            yield repository.ingestion(name, into=into)


def _of_ingestions(repository: Repository, text: str) -> Iterator[Told]:
    """Yield the hours that ingestions whose names have a text have not published."""
    fitting = (each for each in ingestions(repository) if text in each.name.casefold())
    for ingestion in limited(fitting, _INGESTIONS)[0]:
        for number, hour in enumerate(ingestion.pending()[:_HELD]):
            kind, why = "open", "committed, and not published"
            if hour.refused is not None:
                kind, why = ("open" if number else "refused"), hour.refused.reason
            if at := named_hour(hour.hour):
                yield Told(_hour(at), kind, f"{ingestion.name}: {why}", "ingestion")
        for kept in ingestion.quarantined()[:_HELD]:
            for at in filter(None, map(named_hour, kept.hours)):
                why = f"{kept.name}: {kept.refusal.reason}"
                yield Told(_hour(at), "refused", why, "ingestion")


def _of_run(run: RunOutline) -> Told:
    kind, at = kind_of(run), hour_of_run(run.branch) or run.opened
    why = run.reason if run.reason and kind in _LOOKS else f"into {run.into}"
    return Told(_hour(at), kind, f"{run.key}: {why}", "run", {"key": run.key})


def _worst(query: Query, at: datetime, told: Sequence[Told]) -> Hour:
    """Return what an hour is by all that is told of it: what needs a look comes first."""
    name = f"{at:%Y-%m-%d %H:%M}"
    if len(told) == 1:
        _, kind, text, page, given = told[0]
        return Hour(at, kind, f"{name} {kind}: {text}"[:_LONGEST], query.link(page, **given))
    href = query.link("runs", hour=hour_text(at))
    if not told:
        return Hour(at, "missing", f"{name} missing: no run and no files", href)
    first = min(told, key=lambda each: _ORDER.index(each.kind))
    title = f"{name} {first.kind}: {first.text}"[:_LONGEST]
    return Hour(at, first.kind, f"{title} (and {len(told) - 1} more)", href)


def _chosen(text: str) -> datetime | None:
    if text and not _MONTH.fullmatch(text):
        raise InvalidInputError(f"month={text!r}: give a month, as in 2013-01")
    return args.moment(f"{text}-01", "month") if text else None


def _first(moment: datetime) -> datetime:
    return _hour(moment).replace(day=1, hour=0)


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _names(view: Ref, prefix: str) -> Iterator[str]:
    """Yield the names of the first folders below a prefix, each with its slash."""
    below = (item for item in view.list(prefix, delimiter="/") if isinstance(item, Prefix))
    return (item.path[len(prefix) :] for item in limited(below, _NAMES)[0])


def _dated_folders(view: Ref) -> Iterator[str]:
    """Yield the folders at the top that have folders of years."""
    for name in limited(_names(view, ""), _FOLDERS)[0]:
        if any(map(_YEAR.fullmatch, _names(view, name))):
            yield name


def _ends(view: Ref, folder: str) -> Iterator[datetime]:
    """Yield the first and the last hour with a folder ``YYYY/MM/DD/hh:mm/``."""
    for end in (min, max) if folder else ():
        path = f"{folder}/"
        for _ in range(3):
            digits = [name for name in _names(view, path) if name[:-1].isdigit()]
            path += end(digits, default="")
        day = _day(path[len(folder) + 1 :])
        hours = [] if day is None else list(_hours(view, path, day))
        if hours:
            yield end(hours)[0]


def _day(text: str) -> datetime | None:
    return named_hour(text.rstrip("/"))


def _hours(view: Ref, path: str, day: datetime) -> Iterator[tuple[datetime, str]]:
    for name in _names(view, path):
        if (found := _TIME.fullmatch(name)) and int(found[1]) < _DAY // _HOUR:
            yield day.replace(hour=int(found[1])), f"{path}{name}"


def _stored(
    view: Ref, folder: str, since: datetime, until: datetime
) -> Iterator[tuple[datetime, str]]:
    """Yield the hours of a month that have a folder, with its path."""
    prefix = f"{folder}/{since.year:04}/{since:%m}/"
    for name in _names(view, prefix) if folder else ():
        day = _day(f"{since.year:04}/{since:%m}/{name}")
        if day is not None and since <= day < until:
            yield from _hours(view, prefix + name, day)


def _expects(known: Iterable[datetime]) -> Callable[[datetime], bool]:
    """Return whether an hour is expected: between the first and the last known one, in their rhythm."""
    hours = sorted(known)
    step = gcd(*((later - hour) // _HOUR for hour, later in pairwise(hours))) or 1

    def expects(at: datetime) -> bool:
        return hours[0] <= at <= hours[-1] and (at - hours[0]) // _HOUR % step == 0

    return expects if hours else lambda _: False


def _drawn(since: datetime, until: datetime, hours: Iterable[Hour]) -> str:
    squares = {hour.at: Square(*_look(hour)) for hour in hours}
    rows = []
    for number in range((until - since).days):
        day = since + number * _DAY
        places = (day + hour * _HOUR for hour in range(_DAY // _HOUR))
        row = [squares.get(at) or Square("none", f"{at:%Y-%m-%d %H:%M}") for at in places]
        rows.append((f"{day:%d %a}", row))
    heads = [f"{hour:02}" for hour in range(_DAY // _HOUR)]
    return calendar(rows, heads, label=f"Hours of {since:%B %Y}, UTC")


def _look(hour: Hour) -> tuple[str, str, str, str]:
    style, sign = SIGNS[hour.kind]
    return style, hour.title, hour.href, sign
