"""The content of each page: the lakes of Airflow's connections and their runs, as a reader may see them."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice, product
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.sdk.exceptions import AirflowNotFoundException
from fastapi import HTTPException, Query, status
from sqlalchemy import select
from sqlalchemy.orm import Session

from graveler.errors import GravelerError, InvalidInputError, NotFoundError, RunNotFoundError
from graveler.lake import Lake, Repository, RunState
from graveler.model import Commit
from graveler.runs.record import RunRecord
from graveler_airflow.dag.context import run_key
from graveler_airflow.hook import GravelerHook
from graveler_common.history import Changes, changes_between, changes_of, find_commit, own_commits
from graveler_common.lakes import open_lake

_log = logging.getLogger(__name__)

_LISTED = 200
_CONSIDERED = 2_000
_Text = Annotated[str, Query(min_length=1, max_length=1000)]
_Filter = Annotated[str, Query(max_length=1000)]


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a connection's lake; without one `trouble` says why."""

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
    """Open a lake for a ``with`` block."""
    if place.trouble:
        raise InvalidInputError(place.trouble)
    with open_lake(place.location) as lake:
        yield lake


@dataclass(slots=True)
class RunView:
    """A run, and the changes that it has published or would publish."""

    conn_id: str
    repository: str
    record: RunRecord
    steps: list[dict[str, Any]] = field(default_factory=list)
    changes: Changes | None = None
    trouble: str = ""


def runs_of(place: Place, keys: Sequence[str]) -> Iterator[RunView]:
    """Yield the runs of these keys, in every repository of a lake."""
    with opened(place) as lake:
        for repository, key in product(map(lake.repository, lake.repositories()), keys):
            try:
                record = repository.runs.get(key)
            except RunNotFoundError:
                continue
            view = RunView(place.conn_id, repository.name, record)
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
        repositories = map(lake.repository, lake.repositories())
        latest = merge(
            *(product([made.name], made.runs.list()) for made in repositories),
            key=lambda found: found[1].opened,
            reverse=True,
        )
        mine = (
            RunView(place.conn_id, name, record)
            for name, record in islice(latest, _CONSIDERED)
            if record.metadata.get("airflow.dag_id") in dag_ids
        )
        return list(islice(mine, _LISTED))


def _add_steps_and_changes(repository: Repository, view: RunView) -> None:
    (record,) = repository.runs.on_targets([view.record])
    view.record = record
    if record.state in (RunState.PUBLISHED, RunState.ROLLED_BACK):
        publish = record.publishes[-1]
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
        commits = islice(own_commits(repository, head, record.key), _LISTED)
        view.steps = [_step(repository, commit) for commit in commits][::-1]


def _step(repository: Repository, commit: Commit) -> dict[str, Any]:
    metadata = commit.metadata
    return {
        "name": metadata.get("graveler.step", ""),
        "number": metadata.get("graveler.try", ""),
        "commit": commit.id,
        "message": commit.message,
        "at": commit.created,
        "attempt": metadata.get("graveler.attempt", ""),
        "url": metadata.get("url", ""),
        "changes": changes_of(repository, commit),
    }


def lakes_view(
    user: GetUserDep,
    session: SessionDep,
    state: _Filter = "",
    dag_id: _Filter = "",
    repo: _Filter = "",
) -> dict[str, Any]:
    """Return the latest runs of all lakes, of the DAGs that the reader may see."""
    dag_ids = set(get_auth_manager().get_authorized_dag_ids(user=user, method="GET"))
    if dag_id:
        dag_ids &= {dag_id}
    troubles: list[dict[str, str]] = []
    runs: list[RunView] = []
    for place in known_places(session):
        with _noting_trouble(place, user, troubles):
            runs += recent_runs(place, dag_ids)
    runs.sort(key=lambda view: view.record.updated, reverse=True)
    runs = [view for view in runs if repo in ("", view.repository)]
    counts = Counter(str(view.record.state) for view in runs)
    shown = [view for view in runs if state in ("", view.record.state)]
    return {
        "runs": shown[:_LISTED],
        "states": dict(counts),
        "filters": {"state": state, "dag_id": dag_id, "repo": repo},
        "troubles": troubles,
    }


def runs_view(
    user: GetUserDep, session: SessionDep, dag_id: _Text, run_id: _Text
) -> dict[str, Any]:
    """Return the graveler runs of a DAG run."""
    query = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    dag_run = session.scalar(query)
    if dag_run is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"DAG {dag_id!r} has no run {run_id!r}")
    keys = _keys(session, dag_run)
    troubles: list[dict[str, str]] = []
    runs: list[RunView] = []
    for place in known_places(session):
        with _noting_trouble(place, user, troubles):
            for view in runs_of(place, keys):
                if view.trouble:
                    view.trouble = _why(place, user, view.trouble)
                runs.append(view)
    return {
        "dag_id": dag_id,
        "run_id": run_id,
        "dag_run_state": str(dag_run.state),
        "key": keys[0],
        "runs": [view for view in runs if view.record.metadata.get("airflow.dag_id") == dag_id],
        "troubles": troubles,
    }


def _keys(session: Session, dag_run: DagRun) -> list[str]:
    """Return the possible keys of the runs; a key may end with the name of the task group."""
    context: dict[str, Any] = {"dag_run": dag_run, "partition_key": dag_run.partition_key}
    query = (
        select(TaskInstance.task_id, TaskInstance.map_index)
        .where(
            TaskInstance.dag_id == dag_run.dag_id,
            TaskInstance.run_id == dag_run.run_id,
            TaskInstance.operator == "GravelerOpenRunOperator",
        )
        .order_by(TaskInstance.task_id, TaskInstance.map_index)
    )
    keys = [run_key(context)]
    for ti in session.execute(query):
        group = ti.task_id.rpartition(".")[0]
        keys += [run_key({**context, "ti": ti}, name) for name in ("", group)]
    return list(dict.fromkeys(keys))


def commit_view(user: GetUserDep, conn: _Text, repo: _Text, ref: _Text) -> dict[str, Any]:
    """Return a commit and its changes."""
    with _repository(user, conn, repo) as repository:
        commit = repository.commit(ref)
        _check_access(user, conn, own=_made_by_visible_dag(user, commit))
        return {
            "conn": conn,
            "repository": repo,
            "commit": commit,
            "changes": changes_of(repository, commit),
        }


def diff_view(
    user: GetUserDep, conn: _Text, repo: _Text, left: _Text, right: _Text
) -> dict[str, Any]:
    """Return the changes from one commit to another."""
    with _repository(user, conn, repo) as repository:
        before, after = repository.commit(left), repository.commit(right)
        own = after.parents[:1] == (before.id,) and _made_by_visible_dag(user, after)
        _check_access(user, conn, own=own)
        return {
            "conn": conn,
            "repository": repo,
            "left": before,
            "right": after,
            "changes": changes_between(repository, before.id, after.id),
        }


def _made_by_visible_dag(user: Any, commit: Commit) -> bool:
    dag_id = commit.metadata.get("airflow.dag_id", "")
    return bool(dag_id) and get_auth_manager().is_authorized_dag(
        method="GET",
        access_entity=DagAccessEntity.RUN,
        details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
        user=user,
    )


@contextmanager
def _repository(user: Any, conn: str, name: str) -> Iterator[Repository]:
    """Open a repository; a reader who may not see the connection gets no details of an error."""
    try:
        place = place_of(conn)
        if place is None:
            raise NotFoundError(f"no connection {conn!r} of type graveler")
        with opened(place) as lake:
            yield lake.repository(name)
    except GravelerError as error:
        _check_access(user, conn)
        raise HTTPException(_status(error), f"{error.code}: {error}") from error


def _status(error: GravelerError) -> int:
    if isinstance(error, NotFoundError):
        return status.HTTP_404_NOT_FOUND
    if isinstance(error, InvalidInputError):
        return status.HTTP_400_BAD_REQUEST
    return status.HTTP_503_SERVICE_UNAVAILABLE


@contextmanager
def _noting_trouble(place: Place, user: Any, troubles: list[dict[str, str]]) -> Iterator[None]:
    """Note that a lake cannot be read, and continue with the others."""
    try:
        yield
    except (GravelerError, OSError) as error:
        troubles.append({"conn_id": place.conn_id, "why": _why(place, user, str(error))})


def _why(place: Place, user: Any, trouble: str) -> str:
    """Log why a lake cannot be read, and return the text that this reader may see.

    The message may have locations that only readers of the connection may see.
    """
    _log.warning("The lake of connection %s cannot be read: %s", place.conn_id, trouble)
    if may_see_connection(user, place.conn_id):
        return trouble
    return "it cannot be read: see the log of the API server"


def may_see_connection(user: Any, conn_id: str) -> bool:
    """Return whether a user may read a connection, and with it everything in its lake."""
    return bool(
        get_auth_manager().is_authorized_connection(
            method="GET",
            details=ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id)),
            user=user,
        )
    )


def _check_access(user: Any, conn: str, *, own: bool = False) -> None:
    """Refuse a page that is not about an own DAG to a user who may not read the connection."""
    if not own and not may_see_connection(user, conn):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
