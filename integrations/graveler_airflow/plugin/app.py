"""The web application that Airflow mounts at ``/graveler``: pages, and the same as JSON."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, FastAPI, Response

from graveler_airflow.plugin.rendering import as_json, as_page
from graveler_airflow.plugin.views import (
    look_at_commit,
    look_at_diff,
    look_at_lakes,
    look_at_runs,
)

__all__ = ["build_app"]

_Look = Callable[..., dict[str, Any]]


def build_app() -> FastAPI:
    """Return the application; every route of it asks for a token."""
    app = FastAPI(
        title="graveler",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(get_user)],
    )
    may_see_runs = Depends(requires_access_dag("GET", DagAccessEntity.RUN))
    _add(app, "lakes", look_at_lakes, path="/")
    _add(app, "runs", look_at_runs, [may_see_runs])
    _add(app, "commit", look_at_commit)
    _add(app, "diff", look_at_diff)
    return app


def _add(
    app: FastAPI, name: str, look: _Look, guards: Sequence[Any] = (), *, path: str = ""
) -> None:
    @app.get(path or f"/{name}", dependencies=guards)
    def page(found: Annotated[dict[str, Any], Depends(look)]) -> Response:
        return as_page(name, found)

    @app.get(f"/{name}.json", dependencies=guards)
    def data(found: Annotated[dict[str, Any], Depends(look)]) -> Response:
        return as_json(found)
