"""The surface of Iceberg's REST protocol: ``/iceberg/v1/…``, each ref of the lake a catalog.

A client gives the address ``http://host:port/iceberg`` and the warehouse ``REPOSITORY@REF``. The branch of
a run or a step is read-only unless the warehouse has its handle, see `graveler.iceberg.warehouses`.
"""

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from graveler.errors import GravelerError, MissingDependencyError
from graveler.iam.access import Access, Identity
from graveler.runs.attempt import RunBranch
from graveler.server.messages import Answer, HttpError, Request, refuse_web_pages
from graveler.server.tokens import TokenCheck
from graveler.tables.layout import check_library

if TYPE_CHECKING:
    from graveler.lake import Lake, Repository

_ROOT = "/iceberg/v1/"
_MOST_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_JSON = {"Content-Type": "application/json"}
_KINDS = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    501: "UnsupportedOperationException",
}
_OTHER = "ServiceFailureException"
_FAILED = 500
_NOT_OFFERED = 501
_COMMIT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class _Rights:
    """The rights of a client on the tree of a ref; a commit needs those on all refs."""

    access: Access
    identity: Identity
    repository: str
    ref: str
    read_only: bool

    def check(self, action: str, folder: str, *, everywhere: bool = False) -> None:
        """Refuse an action on all of a folder, of the ref or of every ref."""
        if action == "write" and self.read_only:
            raise HttpError(403, "the server was started read-only: it changes nothing")
        ref = "" if everywhere else self.ref
        self.access.check(self.identity, action, self.repository, ref, folder)

    def sees(self, folder: str) -> bool:
        """Return whether the client may know of a folder."""
        return any(
            self.access.sees(self.identity, action, self.repository, self.ref, folder)
            for action in ("read", "write")
        )


class Iceberg:
    """The surface of Iceberg's REST protocol."""

    prefix = "/iceberg"
    grants: tuple[str, ...] = (f"{_ROOT}oauth/tokens", "/iceberg/oauth/tokens")  # Airflow's
    methods = frozenset({"GET", "HEAD", "POST", "DELETE"})
    accept = staticmethod(refuse_web_pages)

    def __init__(self, lake: "Lake", *, read_only: bool) -> None:
        self._lake = lake
        self._access = lake.iam.access
        self._read_only = read_only
        self._repositories: dict[str, Repository] = {}

    def identify(self, request: Request, check: TokenCheck) -> Identity | None:
        """Return who sends a request."""
        return check.identify({}, request.headers.get("authorization", ""))

    def answer(self, request: Request) -> Answer:
        """Carry out a request."""
        check_library()
        from graveler.iceberg import rest

        try:
            return self._answer(request)
        except HttpError:
            raise
        except Exception as error:
            status, kind = rest.status_of(error)
            if kind == _OTHER:
                raise
            return _refusal(status, kind, str(error))

    def failure(self, error: HttpError | GravelerError) -> Answer:
        """Return the answer to a request that failed, in Iceberg's form."""
        status = error.status if isinstance(error, HttpError) else _FAILED
        if isinstance(error, MissingDependencyError):
            status = _NOT_OFFERED
        return _refusal(status, _KINDS.get(status, _OTHER), str(error))

    def _answer(self, request: Request) -> Answer:
        from graveler.iceberg import rest, warehouses
        from graveler.tables.namespaces import Tables

        target = request.target.partition("?")[0]
        _ = request.path  # refuses what cannot be decoded
        first, *parts = target.removeprefix(_ROOT).split("/")
        asks = first == "config" and not parts and request.method == "GET"
        warehouse = request.text("warehouse") if asks else unquote(first)
        if not target.startswith(_ROOT):
            raise HttpError(404, f"{target[:80]!r} does not begin with {_ROOT}")
        name, expression = warehouses.split_warehouse(warehouse)
        self._enter(request.identity, name, "")
        repository = self._repository(name)
        fixed = warehouses.fixed(repository, expression)
        ref = "" if _COMMIT.fullmatch(fixed) else fixed.partition(":")[0]
        self._enter(request.identity, name, ref)
        view = warehouses.view_of(repository, fixed)
        if asks:
            return _document(json.dumps(rest.config(f"{name}@{fixed}")))
        tables = Tables(view, committer=request.identity.user)
        rights = _Rights(self._access, request.identity, name, ref, self._read_only)
        done = rest.answer(request.method, parts, tables, rights, request.query, _content(request))
        if isinstance(view, RunBranch):
            view.record_reads()
        return Answer(204) if done is None else _document(done)

    def _enter(self, identity: Identity, repository: str, ref: str) -> None:
        """Refuse a repository or a ref that the client may not know of, before it is looked up."""
        if not _Rights(self._access, identity, repository, ref, self._read_only).sees(""):
            self._access.check(identity, "read", repository, ref)

    def _repository(self, name: str) -> "Repository":
        known = self._repositories.get(name)
        if known is None or not self._lake.has(known):  # made again under its name
            known = self._repositories[name] = self._lake.repository(name)
        return known


def _content(request: Request) -> bytes:
    """Return what was sent, at most 64 MiB."""
    content = b""
    while request.body and (piece := request.body.read(_PIECE_BYTES)):
        content += piece
        if len(content) > _MOST_BYTES:
            raise HttpError(413, f"the request has more than {_MOST_BYTES} bytes")
    return content


def _document(text: str, status: int = 200) -> Answer:
    return Answer(status, text.encode(), _JSON)


def _refusal(status: int, kind: str, message: str) -> Answer:
    error = {"message": message, "type": kind, "code": status}
    return _document(json.dumps({"error": error}), status)
