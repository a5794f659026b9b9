"""What the pages say of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from itertools import islice, product
from typing import Final

from graveler.errors import GravelerError, NotFoundError, RunNotFoundError
from graveler.lake import Repository, RunState
from graveler.model import Commit
from graveler.runs import RunRecord
from graveler_airflow.plugin.changes import Changes, changes_between, changes_of
from graveler_airflow.plugin.places import Place, opened

__all__ = ["RunView", "StepView", "recent_runs", "runs_of"]

_LATEST: Final = 200
_LOOKED_AT: Final = 2_000
_STEPS: Final = 200


@dataclass(frozen=True, slots=True)
class StepView:
    """The success of a step: a commit on the run's branch.

    Attributes:
        name: Of the step; "" for what was committed without one.
        number: Which try it was.
        commit: Its id.
        message: The commit's.
        at: When it joined the run.
        attempt: In which attempt of the run.
        url: Of the task that made it.
        changes: What it changed.
    """

    name: str
    number: str
    commit: str
    message: str
    at: datetime
    attempt: str
    url: str
    changes: Changes | None


@dataclass(slots=True)
class RunView:
    """A run, and what it would change or has changed.

    Attributes:
        conn_id: The connection of its lake.
        repository: Its repository.
        record: What the lake keeps of it.
        steps: Its steps, in the order in which they joined it.
        changes: From the target to the run, or what publishing changed.
        trouble: What could not be read.
    """

    conn_id: str
    repository: str
    record: RunRecord
    steps: list[StepView] = field(default_factory=list)
    changes: Changes | None = None
    trouble: str = ""


def runs_of(place: Place, keys: Sequence[str]) -> Iterator[RunView]:
    """Yield the runs of these keys, in every repository of a lake."""
    with opened(place) as repositories:
        for repository, key in product(repositories, keys):
            try:
                record = repository.runs.get(key)
            except RunNotFoundError:
                continue
            view = RunView(place.conn_id, repository.name, record)
            try:
                _look(repository, view)
            except GravelerError as error:
                view.trouble = str(error)
            yield view


def recent_runs(place: Place, dag_ids: set[str]) -> list[RunView]:
    """Return the latest runs of a lake that DAG runs of these DAGs made.

    Of those opened last, by whatever DAG, so many are looked at: a page must not read them all.
    """
    with opened(place) as repositories:
        latest = merge(
            *(_views(place, repository) for repository in repositories),
            key=lambda view: view.record.opened,
            reverse=True,
        )
        mine = (
            view
            for view in islice(latest, _LOOKED_AT)
            if view.record.metadata.get("airflow.dag_id") in dag_ids
        )
        return list(islice(mine, _LATEST))


def _views(place: Place, repository: Repository) -> Iterator[RunView]:
    return (RunView(place.conn_id, repository.name, record) for record in repository.runs.list())


def _look(repository: Repository, view: RunView) -> None:
    record = view.record
    if record.state in (RunState.PUBLISHED, RunState.ROLLED_BACK) and record.commit:
        commit = repository.commit(record.commit)
        view.changes = changes_of(repository, commit)
        head = commit.parents[-1] if len(commit.parents) > 1 else ""
    elif record.live:
        head = _head(repository, record)
        view.changes = changes_between(repository, record.base, head) if head else None
    else:
        head = ""
    if head:
        view.steps = list(_steps(repository, record, head))[::-1]


def _head(repository: Repository, record: RunRecord) -> str:
    try:
        return repository.commit(record.branch).id
    except NotFoundError:
        return record.head


def _steps(repository: Repository, record: RunRecord, head: str) -> Iterator[StepView]:
    for commit in islice(repository.log(head, first_parent=True), _STEPS):
        if commit.metadata.get("graveler.run") != record.key or commit.id == record.base:
            return
        yield _step(repository, commit)


def _step(repository: Repository, commit: Commit) -> StepView:
    said = commit.metadata
    return StepView(
        name=said.get("graveler.step", ""),
        number=said.get("graveler.try", ""),
        commit=commit.id,
        message=commit.message,
        at=commit.created,
        attempt=said.get("graveler.attempt", ""),
        url=said.get("url", ""),
        changes=changes_of(repository, commit),
    )
