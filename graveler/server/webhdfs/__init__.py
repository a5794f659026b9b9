"""WebHDFS: a lake as a file system for Hadoop clients, ``/webhdfs/v1/repository/ref/path``."""

from typing import TYPE_CHECKING

from graveler.errors import GravelerError
from graveler.server.messages import Answer, HttpError, Request
from graveler.server.webhdfs.errors import failure
from graveler.server.webhdfs.namespace import Namespace
from graveler.server.webhdfs.operations import Call, operation

if TYPE_CHECKING:
    from graveler.lake import Lake


class WebHdfs:
    """The surface WebHDFS."""

    prefix = "/webhdfs/v1"
    methods = frozenset({"GET", "PUT", "POST", "DELETE"})

    def __init__(self, lake: "Lake", *, read_only: bool, commits_on_success: bool) -> None:
        self._namespace = Namespace(lake, read_only=read_only)
        self._commits_on_success = commits_on_success

    def answer(self, request: Request) -> Answer:
        """Carry out an operation."""
        run = operation(request.method, request.query.get("op", "").upper())
        tree, path = self._namespace.at(request.path[len(self.prefix) :])
        return run(Call(request, tree, path, self._namespace, self._commits_on_success))

    def failure(self, error: HttpError | GravelerError) -> Answer:
        """Return the answer to a request that failed."""
        return failure(error)
