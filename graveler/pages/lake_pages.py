"""The page of a lake: its repositories, and what in each one needs a look."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from graveler.base.clock import from_unix_us
from graveler.errors import GravelerError
from graveler.lake import Lake, Repository, RunRecord, RunState
from graveler.model import Commit
from graveler.pages.page import Page, limited
from graveler.pages.query import Query
from graveler.reads.versions import uncommitted_in
from graveler.refs.settings import Checked

_REPOSITORIES = 50
_RUNS = 100
_BRANCHES = 100
_STAGED = 1_000
_TABLE_FILES = 2_000_000
_KNOWN_SIZES = 1_000
_BEHIND = timedelta(days=1)

_sizes: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Total:
    """The files of a tree.

    Attributes:
        size: Their bytes; None if there are too many files to add them up.
    """

    files: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """A repository in the list.

    Attributes:
        trouble: Why it cannot be read; then the rest is empty.
        branch: Its default branch, whose head follows.
        published: The run of the last publish, and its time.
        runs: Runs that are parked, or silent for longer than their lease.
        more_runs: Whether there are more of them.
        left: Branches with files that were staged more than a day ago.
        collected: State and time of the last mark of garbage collection.
        checked: The last check.
    """

    name: str
    trouble: str = ""
    branch: str = ""
    head: Commit | None = None
    total: Total | None = None
    published: tuple[str, datetime] | None = None
    runs: tuple[RunRecord, ...] = ()
    more_runs: bool = False
    left: tuple[str, ...] = ()
    collected: tuple[str, datetime] | None = None
    checked: Checked | None = None


def lake(lake: Lake, query: Query) -> Page:
    """Return the page of a lake."""
    readable = (name for name in lake.repositories() if query.may_read(name))
    names, more = limited(readable, _REPOSITORIES)
    values = {
        "lines": [_line(lake, name, query.now) for name in names],
        "more": more,
        "location": lake.location,
    }
    return Page("lake", "The lake", values)


def total_of(repository: Repository, commit: Commit) -> Total:
    """Return the number and the bytes of the files of a commit; the bytes of a tree are added up once."""
    import pyarrow.compute as pc

    files, tree = repository.stats(commit.id).entries, commit.metarange
    if tree not in _sizes and files <= _TABLE_FILES:
        if len(_sizes) >= _KNOWN_SIZES:
            _sizes.clear()
        _sizes[tree] = sum(
            pc.sum(batch["size"]).as_py() for batch in repository.ref(commit).listing()
        )
    return Total(files, _sizes.get(tree))


def in_trouble(repository: Repository, now: datetime) -> Iterator[RunRecord]:
    """Yield the runs that are parked, or silent for longer than their lease."""
    for run in repository.runs.list(live=True):
        if run.state is RunState.PARKED or run.expired(now):
            yield run


def _line(lake: Lake, name: str, now: datetime) -> Line:
    try:
        return _read(lake.repository(name), now)
    except GravelerError as error:
        return Line(name, trouble=str(error))


def _read(repository: Repository, now: datetime) -> Line:
    branch = repository.stores.default_branch
    head = repository.commit(branch)
    runs, more = limited(in_trouble(repository, now), _RUNS)
    marks = list(repository.gc.marks())
    return Line(
        repository.name,
        branch=branch,
        head=head,
        total=total_of(repository, head),
        published=_published(repository),
        runs=tuple(runs),
        more_runs=more,
        left=tuple(_left(repository, now)),
        collected=(str(marks[-1].state), from_unix_us(marks[-1].created)) if marks else None,
        checked=repository.last_check,
    )


def _published(repository: Repository) -> tuple[str, datetime] | None:
    """Return the last publish of the latest runs."""
    publishes = (
        (run.key, run.publishes[-1].at)
        for run in islice(repository.runs.list(), _RUNS)
        if run.publishes
    )
    return max(publishes, key=lambda found: found[1], default=None)


def _left(repository: Repository, now: datetime) -> Iterator[str]:
    for record in repository.branches(limit=_BRANCHES):
        staged = islice(uncommitted_in(repository.stores, record), _STAGED)
        if any(change.at is None or now - change.at > _BEHIND for change in staged):
            yield record.name
