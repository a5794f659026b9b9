"""The web application that Airflow mounts at ``/graveler``: pages, also as JSON."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, FastAPI, Response

from graveler_airflow.plugin.pages import as_json, as_page
from graveler_airflow.plugin.views import (
    commit_view,
    diff_view,
    lakes_view,
    runs_view,
)

_View = Callable[..., dict[str, Any]]


def build_app() -> FastAPI:
    """Return the application; every route requires a token."""
    app = FastAPI(
        title="graveler",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(get_user)],
    )
    may_see_runs = Depends(requires_access_dag("GET", DagAccessEntity.RUN))
    _add(app, "lakes", lakes_view, path="/")
    _add(app, "runs", runs_view, [may_see_runs])
    _add(app, "commit", commit_view)
    _add(app, "diff", diff_view)
    return app


def _add(
    app: FastAPI, name: str, view: _View, guards: Sequence[Any] = (), *, path: str = ""
) -> None:
    @app.get(path or f"/{name}", dependencies=guards)
    def page(content: Annotated[dict[str, Any], Depends(view)]) -> Response:
        return as_page(name, content)

    @app.get(f"/{name}.json", dependencies=guards)
    def data(content: Annotated[dict[str, Any], Depends(view)]) -> Response:
        return as_json(content)
