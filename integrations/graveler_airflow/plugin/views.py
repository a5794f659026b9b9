"""The content of each page, and the check of access by Airflow's auth manager."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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
from fastapi import HTTPException, Query, status
from sqlalchemy import select
from sqlalchemy.orm import Session

from graveler.errors import GravelerError, InvalidInputError, NotFoundError
from graveler.lake import Repository
from graveler.model import Commit
from graveler_airflow.dag.context import run_key
from graveler_airflow.plugin.runs import (
    Place,
    RunView,
    known_places,
    opened,
    place_of,
    recent_runs,
    runs_of,
)
from graveler_common.history import changes_between, changes_of

_log = logging.getLogger(__name__)

_LISTED = 200
_Text = Annotated[str, Query(min_length=1, max_length=1000)]
_Filter = Annotated[str, Query(max_length=1000)]


def lakes_view(
    user: GetUserDep,
    session: SessionDep,
    state: _Filter = "",
    dag_id: _Filter = "",
    repo: _Filter = "",
) -> dict[str, Any]:
    """Return the latest runs of all lakes, of the DAGs that the reader may see.

    Args:
        user: The reader.
        session: The session of Airflow's database.
        state: Only runs in this state.
        dag_id: Only runs of this DAG.
        repo: Only runs of this repository.
    """
    dag_ids = visible_dags(user)
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
        if not _made_by_visible_dag(user, commit) and not may_see_connection(user, conn):
            raise refuse()
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
        if not own and not may_see_connection(user, conn):
            raise refuse()
        return {
            "conn": conn,
            "repository": repo,
            "left": before,
            "right": after,
            "changes": changes_between(repository, before.id, after.id),
        }


def _made_by_visible_dag(user: Any, commit: Commit) -> bool:
    dag_id = commit.metadata.get("airflow.dag_id", "")
    return bool(dag_id) and may_see_run(user, dag_id)


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
        if not may_see_connection(user, conn):
            raise refuse() from error
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


def may_see_run(user: Any, dag_id: str) -> bool:
    """Return whether a user may read the runs of a DAG."""
    return bool(
        get_auth_manager().is_authorized_dag(
            method="GET",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
            user=user,
        )
    )


def may_see_connection(user: Any, conn_id: str) -> bool:
    """Return whether a user may read a connection, and with it everything in its lake."""
    return bool(
        get_auth_manager().is_authorized_connection(
            method="GET",
            details=ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id)),
            user=user,
        )
    )


def visible_dags(user: Any) -> set[str]:
    """Return the ids of the DAGs that a user may read."""
    return set(get_auth_manager().get_authorized_dag_ids(user=user, method="GET"))


def refuse() -> HTTPException:
    """Return the error for a user who may not see a page."""
    return HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
