"""The lakes of Airflow's connections and their runs, with steps and changes, for the pages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from itertools import islice, product
from typing import Any

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from sqlalchemy import select
from sqlalchemy.orm import Session

from graveler.errors import GravelerError, InvalidInputError, RunNotFoundError
from graveler.lake import Lake, Publish, Repository, RunState
from graveler.model import Commit
from graveler.runs.record import RunRecord
from graveler_airflow.hook import GravelerHook
from graveler_common.history import Changes, changes_between, changes_of, find_commit, own_commits
from graveler_common.lakes import open_lake

_LISTED = 200
_CONSIDERED = 2_000
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a connection's lake, or the reason why there is none.

    Attributes:
        conn_id: The connection.
        location: The lake's location.
        trouble: Why the connection names no lake; "" if it names one.
    """

    conn_id: str
    location: str
    trouble: str = ""


def known_places(session: Session) -> list[Place]:
    """Return the lakes of the connections of type ``graveler``, each lake once.

    Connections in the environment or in a secrets backend cannot be listed. Only the default one of
    them is included.
    """
    rows = select(Connection.conn_id).where(Connection.conn_type == GravelerHook.conn_type)
    listed = [str(conn_id) for conn_id in session.scalars(rows.order_by(Connection.conn_id))]
    default = GravelerHook.default_conn_name
    places: dict[str, Place] = {}
    for conn_id in dict.fromkeys([default, *listed]):
        place = place_of(conn_id)
        if place is not None:
            places.setdefault(place.location or conn_id, place)
    return list(places.values())


def place_of(conn_id: str) -> Place | None:
    """Return the place of a connection's lake, or None if there is no such connection."""
    hook = _ServerHook(conn_id)
    try:
        if hook.connection.conn_type != GravelerHook.conn_type:
            return None
    except AirflowNotFoundException:
        return None
    try:
        return Place(conn_id, hook.location)
    except (AirflowNotFoundException, GravelerError) as error:
        return Place(conn_id, "", str(error))


class _ServerHook(GravelerHook):
    """The hook in the API server, where connections do not come through the API of tasks."""

    @classmethod
    def get_connection(cls, conn_id: str) -> Any:
        """Return a connection of the database, the environment or a secrets backend."""
        return Connection.get_connection_from_secrets(conn_id)


@contextmanager
def opened(place: Place) -> Iterator[Lake]:
    """Open a lake for a ``with`` block.

    Raises:
        InvalidInputError: The connection names no lake.
        BackendUnavailableError: There is no lake, or it cannot be reached now.
    """
    if place.trouble:
        raise InvalidInputError(place.trouble)
    with open_lake(place.location) as lake:
        yield lake


@dataclass(frozen=True, slots=True)
class StepView:
    """A step that has joined its run: a commit on the run's branch.

    Attributes:
        name: The step's name; "" for a commit without a step.
        number: The number of the try.
        commit: The commit's id.
        message: The commit's message.
        at: When it joined the run.
        attempt: The attempt of the run.
        url: The page of the task that made it.
        changes: Its changes.
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
    """A run, and the changes that it has published or would publish.

    Attributes:
        conn_id: The connection of its lake.
        repository: Its repository.
        record: Its record.
        publishes: Its publishes with their present state on the targets, the oldest first.
        steps: The steps of its latest attempt, in the order in which they joined it.
        changes: The changes from the target to the run, or those of its publish.
        trouble: Why its steps or changes cannot be read; "" if they can.
    """

    conn_id: str
    repository: str
    record: RunRecord
    publishes: tuple[Publish, ...] = ()
    steps: list[StepView] = field(default_factory=list)
    changes: Changes | None = None
    trouble: str = ""

    @property
    def standing(self) -> Publish | None:
        """The latest publish that is on its target."""
        stand = (item for item in reversed(self.publishes) if not (item.rollback or item.lost))
        return next(stand, None)


def runs_of(place: Place, keys: Sequence[str]) -> Iterator[RunView]:
    """Yield the runs of these keys, in every repository of a lake."""
    with opened(place) as lake:
        for repository, key in product(map(lake.repository, lake.repositories()), keys):
            try:
                record = repository.runs.get(key)
            except RunNotFoundError:
                continue
            view = RunView(place.conn_id, repository.name, record, record.publishes)
            try:
                _add_steps_and_changes(repository, view)
            except GravelerError as error:
                view.trouble = str(error)
            yield view


def recent_runs(place: Place, dag_ids: set[str]) -> list[RunView]:
    """Return the latest runs of a lake that DAG runs of these DAGs made.

    It considers only the last opened runs of all DAGs, because a page must not read all runs.
    """
    with opened(place) as lake:
        latest = merge(
            *(_views(place, lake.repository(name)) for name in lake.repositories()),
            key=lambda view: view.record.opened,
            reverse=True,
        )
        mine = (
            view
            for view in islice(latest, _CONSIDERED)
            if view.record.metadata.get("airflow.dag_id") in dag_ids
        )
        return list(islice(mine, _LISTED))


def _views(place: Place, repository: Repository) -> Iterator[RunView]:
    return (
        RunView(place.conn_id, repository.name, record, record.publishes)
        for record in repository.runs.list()
    )


def _add_steps_and_changes(repository: Repository, view: RunView) -> None:
    record = view.record
    view.publishes = repository.runs.publishes(record.key)
    if record.state in (RunState.PUBLISHED, RunState.ROLLED_BACK):
        publish = view.publishes[-1]
        if publish.changed:
            view.changes = changes_of(repository, repository.commit(publish.commit))
        head = publish.head
    elif record.live:
        branch = find_commit(repository, record.branch)
        head = branch.id if branch else record.head
        view.changes = changes_between(repository, record.base, head) if head else None
    else:
        head = ""
    if head:
        commits = islice(own_commits(repository, head, record.key), _STEPS)
        view.steps = [_step(repository, commit) for commit in commits][::-1]


def _step(repository: Repository, commit: Commit) -> StepView:
    metadata = commit.metadata
    return StepView(
        name=metadata.get("graveler.step", ""),
        number=metadata.get("graveler.try", ""),
        commit=commit.id,
        message=commit.message,
        at=commit.created,
        attempt=metadata.get("graveler.attempt", ""),
        url=metadata.get("url", ""),
        changes=changes_of(repository, commit),
    )
