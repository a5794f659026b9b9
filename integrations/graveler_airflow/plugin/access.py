"""Which user may see which page, as Airflow's auth manager decides."""

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from fastapi import HTTPException, status


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
