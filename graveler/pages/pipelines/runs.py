"""The pages of runs: the calendar of hours with a table of runs, and one run."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from operator import attrgetter
from typing import Any

from graveler.base.names import hour_of_run
from graveler.errors import RefNotFoundError
from graveler.lake import Origin, Publish, Refusal, Repository, RunRecord, RunState
from graveler.model import Commit
from graveler.pages.page import Page, limited
from graveler.pages.pipelines.hours import kind_of, month
from graveler.pages.query import Query

_SHOWN, _LOOKED = 50, 500
_STEPS, _ROWS = 100, 40
_STATES = tuple(str(state).lower() for state in RunState if state is not RunState.NONE)
_GATES = ": those that the branch requires, and those given by --gate"
_UNFINISHED = ("open", "publishing", "parked")


def runs(repository: Repository, query: Query) -> Page:
    """Return the calendar of a month, and the runs that a filter lets through, the latest opened first."""
    values = {**month(repository, query), **_table(repository, query), "states": _STATES}
    return Page("runs", "Runs", values)


def _table(repository: Repository, query: Query) -> dict[str, Any]:
    state = query.choice("state", ("", *_STATES))
    into, text, hour = query.text("into"), query.text("text").casefold(), query.moment("hour")
    after = query.text("after") or None
    listed = (
        repository.runs.list(live=state in _UNFINISHED, after=after)
        if hour is None
        else _of_hour(repository, hour)
    )
    found: list[RunRecord] = []
    looked, last = 0, ""
    for record in listed:
        if len(found) == _SHOWN or looked == _LOOKED:
            break
        looked, last = looked + 1, record.key
        fits = state in ("", str(record.state).lower()) and into in ("", record.into)
        if fits and text in record.key.casefold():
            found.append(record)
    else:
        last = ""  # there are no more
    shown = [_row(record) for record in repository.runs.on_targets(found)]
    return {"found": shown, "last": last, "looked": looked}


def _of_hour(repository: Repository, hour: datetime) -> Iterator[RunRecord]:
    until = hour + timedelta(hours=1)
    branches = [branch for at, branch in repository.runs.hours() if hour <= at < until]
    return (repository.runs.get(run.key) for run in repository.runs.outlines(branches))


def _row(record: RunRecord) -> dict[str, Any]:
    gates = record.refusals[-1].gates if kind_of(record) == "refused" else ()
    return {"record": record, "hour": hour_of_run(record.branch), "gates": gates}


@dataclass(frozen=True, slots=True)
class Command:
    """A command to copy, and what it does."""

    text: str
    does: str


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a run; `attempt` is None where the record does not keep it."""

    at: datetime
    what: str
    attempt: int | None = None
    publish: Publish | None = None
    refusal: Refusal | None = None


def command(repository: Repository, *words: str) -> str:
    """Return a command of the command line about a repository, as a shell takes it."""
    return shlex.join(["graveler", "--repo", repository.name, *words])


def run(repository: Repository, query: Query) -> Page:
    """Return one run: attempts, steps, inputs, verdicts, and the way out. Without a key, list runs."""
    key = query.text("key")
    if not key:
        return runs(repository, query)
    (record,) = repository.runs.on_targets([repository.runs.get(key)])
    steps, more = limited(_steps(repository, record), _STEPS)
    values = {
        "record": record,
        "hour": hour_of_run(record.branch),
        "kind": kind_of(record),
        "events": sorted(_events(record), key=attrgetter("at"), reverse=True),
        "steps": steps,
        "more_steps": more,
        "facts": {verdict.gate: facts(verdict.facts) for verdict in record.verdicts},
        "origin": Origin.of(record.metadata),
        "ways": list(_ways_out(repository, record, query)) if key.isprintable() else [],
        "show": command(repository, "run", "show", *_named(key)),
    }
    return Page("run", key, values)


def _named(key: str) -> tuple[str, ...]:
    """Return the arguments that name a run; a key may look like an option."""
    return ("--", key) if key.startswith("-") else (key,)


def _events(record: RunRecord) -> Iterator[Event]:
    """Yield what the record keeps of all attempts."""
    yield Event(record.created, "opened", 1)
    if record.attempt > 1:
        yield Event(record.opened, "opened again", record.attempt)
    for publish in record.publishes:
        yield Event(publish.at, "published", publish.attempt, publish)
    for refusal in record.refusals:
        yield Event(refusal.at, "refused", refusal=refusal)
    if record.state is RunState.PARKED:
        yield Event(record.updated, "parked", record.attempt)
    elif record.state is RunState.REAPED:
        yield Event(record.updated, "abandoned", record.attempt)


def _steps(repository: Repository, record: RunRecord) -> Iterator[Commit]:
    """Yield the commits of the run on its branch, the latest first."""
    try:
        head = repository.commit(record.branch if record.live else record.head or record.base)
    except RefNotFoundError:
        return

    def own(commit: Commit) -> bool:
        pairs = commit.metadata
        return pairs.get("graveler.run") == record.key and "graveler.published" not in pairs

    yield from takewhile(own, repository.log(head.id, first_parent=True))


def facts(reported: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a gate reported as names and texts; a table of it as one line a row."""
    return limited(_rows(reported.items()), _ROWS)[0]


def _rows(items: Iterable[tuple[Any, Any]], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in items:
        if isinstance(value, Mapping):
            yield from _rows(value.items(), f"{above}{name} ")
        else:
            yield f"{above}{name}", _fact(value)


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_fact, value))
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _ways_out(repository: Repository, record: RunRecord, query: Query) -> Iterator[Command]:
    """Yield the commands that lead on from the state of a run."""

    def way(does: str, *words: str) -> Command:
        return Command(command(repository, "run", *words), does)

    key = _named(record.key)
    resumes = f"opens attempt {record.attempt + 1}"
    if record.state is RunState.PARKED:
        yield way(f"{resumes}, which resumes the commits of the run", "open", *key)
        yield way("gives it up: the branch is deleted, the record stays", "abandon", *key)
    elif record.live:
        if record.expired(query.now):
            yield way("parks every attempt whose lease is over", "reap", "--yes")
        yield way(f"asks the gates now and moves nothing{_GATES}", "preview", f"--run={record.key}")
        yield way(f"publishes it, if the gates pass{_GATES}", "publish", f"--run={record.key}")
        yield way("sets it aside: its commits wait for the next attempt", "park", *key)
    else:
        yield way(f"{resumes}, which starts from {record.into} as it is now", "open", *key)
    if record.published is not None and record.published.changed:
        yield way(
            "shows what a rollback reverts, and who has read it", "rollback", "--dry-run", *key
        )
        yield way(f"reverts what {record.into} has of it, by one commit", "rollback", *key)
