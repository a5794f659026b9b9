"""The page of ingestion: what waits, is held, is in quarantine, and why."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graveler.ingest import Hour, Ingestion, Quarantine, Refusal
from graveler.ingest.hours import path_hour
from graveler.lake import Repository
from graveler.model import Change, Commit
from graveler.pages.page import Page, limited
from graveler.pages.pipelines.hours import ingestions
from graveler.pages.pipelines.runs import command
from graveler.pages.query import Query
from graveler.reads.versions import uncommitted_in

_GATES = (
    "; give the gates of the schedule by --gate, else only those that the branch requires judge"
)
_BRANCHES, _STAGED, _SHOWN = 20, 1_000, 20


@dataclass(frozen=True, slots=True)
class State:
    """An ingestion branch.

    Attributes:
        into: The branch that it is published to.
        head: Its head; None if the branch is deleted.
        staged: The first files that wait for the next tick.
        by_hour: Their number by the hour of their folder; "" for other folders.
        more: Whether more files wait than were counted.
        pending: The first hours that are committed and not published.
        left: Whether there are more of them.
        quarantined: The quarantines that are not released.
        ways: Commands, each with what it does.
    """

    name: str
    into: str
    head: Commit | None
    staged: list[Change]
    by_hour: list[tuple[str, int]]
    more: bool
    pending: list[Hour]
    left: bool
    held: Refusal | None
    quarantined: list[Quarantine]
    ways: list[tuple[str, str]]


def ingestion(repository: Repository, query: Query) -> Page:
    """Return the state of each ingestion branch."""
    found, more = limited(ingestions(repository), _BRANCHES)
    states = [_state(repository, each) for each in found]
    values: dict[str, Any] = {"states": states, "more": more, "counted": _STAGED}
    return Page("ingestion", "Ingestion", values)


def _state(repository: Repository, given: Ingestion) -> State:
    name, into = given.name, given.into
    record = repository.stores.refs.branches.find(name)
    staged = uncommitted_in(repository.stores, record) if record else ()
    changes, more = limited(staged, _STAGED)
    hours = Counter(path_hour(change.path) or "" for change in changes)
    pending = given.pending()
    held, quarantined = (pending[0].refused if pending else None), list(given.quarantined())
    return State(
        name,
        into,
        repository.commit(record.commit_id) if record else None,
        changes[:_SHOWN],
        sorted(hours.items())[:_SHOWN],
        more,
        list(pending[:_SHOWN]),
        len(pending) > _SHOWN,
        held,
        quarantined,
        list(_ways(repository, name, into, held, quarantined)),
    )


def _ways(
    repository: Repository,
    name: str,
    into: str,
    held: Refusal | None,
    quarantined: list[Quarantine],
) -> Iterator[tuple[str, str]]:
    options = (f"--branch={name}", f"--into={into}")
    tick = command(repository, "ingest", "tick", *options)
    if held is not None:
        repair = command(repository, "put", "FILE", f"{name}:PATH")
        yield repair, "replaces a refused file; then the next tick judges again"
        yield (
            f"{tick} --on-refusal quarantine",
            f"moves the refused change aside, and goes on{_GATES}",
        )
    else:
        yield tick, f"commits what is staged, judges it and publishes it{_GATES}"
    for kept in quarantined[:_SHOWN]:
        release = command(repository, "ingest", "release", kept.name, *options)
        yield release, f"judges {kept.name} again and publishes it{_GATES}"
