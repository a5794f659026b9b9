"""WebHDFS: a lake as a file system for Hadoop clients, ``/webhdfs/v1/repository/ref/path``."""

from typing import TYPE_CHECKING

from graveler.errors import GravelerError
from graveler.iam.access import Identity
from graveler.server.messages import Answer, HttpError, Request, refuse_web_pages
from graveler.server.tokens import GRANT, TokenCheck
from graveler.server.webhdfs.errors import failure
from graveler.server.webhdfs.namespace import Namespace
from graveler.server.webhdfs.operations import Call, operation
from graveler.server.webhdfs.rights import Rights

if TYPE_CHECKING:
    from graveler.lake import Lake


class WebHdfs:
    """The surface WebHDFS."""

    prefix = "/webhdfs/v1"
    grants: tuple[str, ...] = (GRANT,)
    methods = frozenset({"GET", "PUT", "POST", "DELETE"})
    accept = staticmethod(refuse_web_pages)

    def __init__(self, lake: "Lake", *, read_only: bool, commits_on_success: bool) -> None:
        self._namespace = Namespace(lake, read_only=read_only)
        self._access = lake.iam.access
        self._commits_on_success = commits_on_success

    def identify(self, request: Request, check: TokenCheck) -> Identity | None:
        """Return who sends a request."""
        return check.identify(request.query, request.headers.get("authorization", ""))

    def answer(self, request: Request) -> Answer:
        """Carry out an operation."""
        run = operation(request.method, request.query.get("op", "").upper())
        rights = Rights(self._access, request.identity)
        tree, path = self._namespace.at(request.path[len(self.prefix) :], rights)
        return run(Call(request, tree, path, self._namespace, self._commits_on_success, rights))

    def failure(self, error: HttpError | GravelerError) -> Answer:
        """Return the answer to a request that failed."""
        return failure(error)
