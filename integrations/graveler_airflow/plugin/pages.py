"""The web application that Airflow mounts at ``/graveler``: pages as HTML and as JSON.

They are made of the templates and the style of `graveler.pages`, which escape all values.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated, Any
from urllib.parse import urlencode

from airflow.api_fastapi.app import API_ROOT_PATH
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, FastAPI, Response
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, FileSystemLoader

from graveler.base.clock import SystemClock
from graveler.pages.rendering import extended, filled
from graveler.runs.record import RunRecord
from graveler_airflow.dag.context import hint
from graveler_airflow.plugin.views import commit_view, diff_view, lakes_view, runs_view

_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_INTERNAL = ("fence", "nonce", "owner", "owners")

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


def as_json(content: Mapping[str, Any]) -> Response:
    """Return the content as JSON."""
    return JSONResponse(_plain(content), headers=_HEADERS)


def as_page(name: str, content: Mapping[str, Any]) -> Response:
    """Return the content as a page whose policy allows only its own script and style."""
    nonce = token_urlsafe(16)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; "
        "frame-ancestors 'self'; base-uri 'none'; form-action 'self'"
    )
    now = SystemClock().now()
    values = {**content, "nonce": nonce, "now": now, "airflow": API_ROOT_PATH.rstrip("/")}
    text = filled(_templates(), f"{name}.html", values, now=now)
    return HTMLResponse(text, headers={**_HEADERS, "Content-Security-Policy": policy})


def _plain(value: Any) -> Any:
    if isinstance(value, RunRecord):
        stored = {key: item for key, item in asdict(value).items() if key not in _INTERNAL}
        value = {**stored, "commit": value.commit, "rollback": value.rollback}
    elif is_dataclass(value) and not isinstance(value, type):
        value = {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, datetime) else value


@cache
def _templates() -> Environment:
    own = FileSystemLoader(Path(__file__).with_name("templates"))
    return extended(own, query=urlencode, quoted=shlex.quote, hint=hint)
