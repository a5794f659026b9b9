"""The calendar of hours: what the runs and the folders of a repository say of each hour of a month."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

from graveler.base import arguments as args
from graveler.base.names import hour_folder, hour_text, named_hour
from graveler.errors import InvalidInputError
from graveler.ingest import Ingestion
from graveler.ingest.records import IngestRecords, branches_of
from graveler.lake import Ref, Repository, RunRecord, RunState
from graveler.model import Prefix
from graveler.pages.drawing import Square, calendar
from graveler.pages.page import limited
from graveler.pages.query import Query
from graveler.runs.record import RunOutline, was_refused

_HOURS, _RUNS = 20_000, 4_000
_FOLDERS, _NAMES, _LISTED = 50, 400, 20
_INGESTIONS, _HELD, _LONGEST = 20, 200, 200
_USUAL, _FILES = "ingest", "files, and no run of this hour"
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_MONTH = re.compile(r"\d{4}-\d{2}")
_YEAR = re.compile(r"\d{4}/")
_PART = re.compile(r"\d{2}/")
_TIME = re.compile(r"([01]\d|2[0-3])(:[0-5]\d)?/")
_PATH = re.compile(rf"\d{{4}}/\d{{2}}/\d{{2}}/{_TIME.pattern}")

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
    """The state of an hour by one source: a run, an ingestion or a folder.

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
    by_hour: dict[datetime, list[Told]] = defaultdict(list)
    for told in _of_ingestions(repository, text):
        by_hour[told.at].append(told)
    files = Files(view.commit.metarange, folder, view)
    ends = _ends(files) if folder else ()
    of_runs = set(map(_hour, {at for at, _ in named}))  # several runs name one hour
    since = _chosen(query) or _first(max(of_runs or {*by_hour, *ends}, default=query.now))
    until = _first(since + 31 * _DAY)
    branches = {branch: at for at, branch in named if since <= at < until}
    found, more = limited(repository.runs.outlines([*branches]), _RUNS)
    fitting = (run for run in found if text in run.key.casefold())
    for told in (_of_run(run, branches[run.branch]) for run in fitting):
        by_hour[told.at].append(told)
    places = [since + number * _HOUR for number in range((until - since) // _HOUR)]
    gaps = {at.replace(hour=0) for at in places if at not in by_hour} if folder else ()
    for at, path in (one for day in gaps for one in _of_day(files, day).items()):
        if at not in by_hour:
            by_hour[at].append(Told(at, "published", _FILES, "files", {"path": path}))
    expects = _expects(by_hour if text else {*of_runs, *ends, *by_hour})
    hours = [_worst(query, at, by_hour[at]) for at in places if at in by_hour or expects(at)]
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


def _of_run(run: RunOutline, at: datetime) -> Told:
    kind = kind_of(run)
    why = run.reason if run.reason and kind in _LOOKS else f"into {run.into}"
    return Told(_hour(at), kind, f"{run.key}: {why}", "run", {"key": run.key})


def _worst(query: Query, at: datetime, told: Sequence[Told]) -> Hour:
    """Return what an hour is by all that is known of it: what needs a look comes first."""
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


def _chosen(query: Query) -> datetime | None:
    """Return the month of the address; without one, that of the hour in it."""
    text, hour = query.text("month"), query.moment("hour")
    if text and not _MONTH.fullmatch(text):
        raise InvalidInputError(f"month={text!r}: give a month, as in 2013-01")
    at = args.moment(f"{text}-01", "month") if text else hour
    return None if at is None else _first(at)


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


@dataclass(frozen=True, slots=True)
class Files:
    """The folders ``YYYY/MM/DD/hh:mm/`` of a tree; what was read of one is kept, as no tree changes."""

    tree: str
    folder: str
    view: Ref = field(compare=False)


@lru_cache(maxsize=64)
def _ends(files: Files) -> tuple[datetime, ...]:
    """Return the first and the last hour that has files."""
    path = last = f"{files.folder}/"
    first = [entry.path for entry in limited(files.view.list(path, after=f"{path}0"), 1)[0]]
    for level in (_YEAR, _PART, _PART, _TIME):
        last += max(filter(level.fullmatch, _names(files.view, last)), default="")
    found = (each.removeprefix(path) for each in (*first, last))
    hours = (named_hour(each) for each in found if _PATH.match(each))
    return tuple(_hour(at) for at in hours if at is not None)


@lru_cache(maxsize=1 << 10)
def _of_day(files: Files, day: datetime) -> Mapping[datetime, str]:
    """Return the hours of a day that have a folder, with its path."""
    prefix = f"{files.folder}/{hour_folder(day)[: -len('hh:mm')]}"
    names = filter(_TIME.fullmatch, _names(files.view, prefix))
    hours = {name: named_hour(f"{day:%Y-%m-%d} {name}") for name in names}
    return {_hour(at): f"{prefix}{name}" for name, at in hours.items() if at is not None}


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
