"""The page of a repository, and the search for a path, a commit or a run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, TypeVar

from graveler.errors import InvalidInputError, NotFoundError
from graveler.lake import Repository, RunRecord
from graveler.model import BranchRecord, Commit
from graveler.pages.lake_pages import total_of
from graveler.pages.page import Page, limited
from graveler.pages.query import Query
from graveler.reads.versions import uncommitted_in
from graveler.refs.history import outside

_BRANCHES = 50
_TAGS = 50
_RUNS = 10
_STAGED = 100
_APART = 200
_FOUND = 50
_SEARCHED = 1_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Count:
    """A number that is counted up to a limit.

    Attributes:
        more: Whether counting stopped.
    """

    number: int
    more: bool

    def __bool__(self) -> bool:
        return self.number > 0

    def __str__(self) -> str:
        return f"{self.number:,}{'+' * self.more}"


@dataclass(frozen=True, slots=True)
class Line:
    """A branch in the list.

    Attributes:
        ahead: Commits that the default branch does not have; `behind` is the other way round.
        staged: Staged files, and since when the first of them waits.
        protected: The actions that are forbidden on it.
        gates: Names of the gates that it requires.
    """

    name: str
    head: Commit
    ahead: Count
    behind: Count
    staged: Count
    since: datetime | None
    protected: list[str]
    gates: list[str]
    ends: datetime | None


def repository(repository: Repository, query: Query) -> Page:
    """Return the page of a repository."""
    default = repository.stores.default_branch
    head = repository.commit(default)
    records, more_branches = limited(repository.branches(after=query.text("after")), _BRANCHES)
    tags, more_tags = limited(sorted(repository.tags.list().items(), reverse=True), _TAGS)
    runs, more_runs = limited(repository.runs.list(), _RUNS)
    protected, gates = repository.protection.list(), _gate_names(repository)
    values = {
        "storage": repository.storage,
        "default": default,
        "head": head,
        "total": total_of(repository, head),
        "branches": [_line(repository, record, head, protected, gates) for record in records],
        "more_branches": more_branches,
        "tags": [(name, _found(repository.commit, identifier)) for name, identifier in tags],
        "more_tags": more_tags,
        "runs": runs,
        "more_runs": more_runs,
    }
    return Page("repository", repository.name, values)


def _gate_names(repository: Repository) -> dict[str, list[str]]:
    settings = repository.gates.settings()
    return {
        pattern: [str(gate.options.get("name") or gate.check) for gate in gates]
        for pattern, gates in settings.items()
    }


def _line(
    repository: Repository,
    record: BranchRecord,
    default: Commit,
    protected: Mapping[str, Any],
    gates: Mapping[str, Any],
) -> Line:
    commits, head = repository.stores.refs.commits, repository.commit(record.commit_id)
    staged = list(islice(uncommitted_in(repository.stores, record), _STAGED + 1))
    return Line(
        record.name,
        head,
        ahead=_counted(outside(commits, head.id, default.id), _APART),
        behind=_counted(outside(commits, default.id, head.id), _APART),
        staged=_counted(iter(staged), _STAGED),
        since=min((change.at for change in staged if change.at), default=None),
        protected=sorted(set(_matching(protected, record.name))),
        gates=_matching(gates, record.name),
        ends=record.ends,
    )


def _counted(items: Iterator[Any], most: int) -> Count:
    number = sum(1 for _ in islice(items, most + 1))
    return Count(min(number, most), number > most)


def _matching(rules: Mapping[str, Any], branch: str) -> list[Any]:
    return [one for pattern, them in rules.items() if fnmatchcase(branch, pattern) for one in them]


def _found(find: Callable[[str], T], name: str) -> T | None:
    """Return what a name stands for, or None."""
    try:
        return find(name)
    except (NotFoundError, InvalidInputError):
        return None


def search(repository: Repository, query: Query) -> Page:
    """Return what a text names: paths, a commit, branches, tags and runs."""
    text = query.text("q").strip()
    default = repository.stores.default_branch
    values: dict[str, Any] = {"q": text, "default": default, "searched": _SEARCHED}
    if not text:
        return Page("search", "Search", {**values, "found": False})
    view = repository.ref(default)
    paths, more_paths = _found(lambda path: limited(view.list(path), _FOUND), text) or ([], False)
    runs, more_runs = limited(_runs(repository, text), _FOUND)
    names = sorted(repository.tags.list().keys() | {each.name for each in repository.branches()})
    refs, more_refs = limited((name for name in names if text in name), _FOUND)
    commit = _found(repository.commit, text)
    values |= {
        "commit": commit,
        "refs": refs,
        "runs": runs,
        "paths": [entry for entry in paths if entry.path],
        "more": {"paths": more_paths, "runs": more_runs, "branches and tags": more_refs},
        "found": bool(commit or refs or runs or paths),
    }
    return Page("search", f"Search: {text}", values)


def _runs(repository: Repository, text: str) -> Iterator[RunRecord]:
    """Yield the run of a key, and of the latest runs those whose keys have the text in them."""
    exact = _found(repository.runs.get, text)
    if exact is not None:
        yield exact
    for run in islice(repository.runs.list(), _SEARCHED):
        if text in run.key and (exact is None or run.key != exact.key):
            yield run
