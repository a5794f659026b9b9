"""Errors as WebHDFS reports them: a status and the name of a Java exception.

Hadoop's client throws an exception of that class, with the message, so that Spark shows it.
"""

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    GravelerError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    ProtectedBranchError,
    RetryableError,
    StorageFullError,
)
from graveler.server.messages import Answer, HttpError

ACCESS = "org.apache.hadoop.security.AccessControlException"
ARGUMENT = "java.lang.IllegalArgumentException"
END = "java.io.EOFException"
EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"
IO = "java.io.IOException"
NOT_EMPTY = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
NOT_FOUND = "java.io.FileNotFoundException"
PARENT = "org.apache.hadoop.fs.ParentNotDirectoryException"
RETRY = "org.apache.hadoop.ipc.RetriableException"
UNSUPPORTED = "java.lang.UnsupportedOperationException"

_STATUS = {ARGUMENT: 400, UNSUPPORTED: 400, NOT_FOUND: 404, RETRY: 503}
_OTHER_STATUS = 403
_FULL_STATUS = 507
_BY_STATUS = {400: ARGUMENT, 401: ACCESS, 403: ACCESS, 404: NOT_FOUND, 501: UNSUPPORTED}

_CLASSES: tuple[tuple[type[GravelerError], str], ...] = (
    (NotFoundError, NOT_FOUND),
    (AlreadyExistsError, EXISTS),
    (PermissionDeniedError, ACCESS),
    (ProtectedBranchError, ACCESS),
    (FencedError, ACCESS),
    (InvalidInputError, ARGUMENT),
    (RetryableError, RETRY),
)


class RemoteError(HttpError):
    """An error that the client throws again."""

    def __init__(self, java_class: str, message: str, status: int = 0) -> None:
        super().__init__(status or _STATUS.get(java_class, _OTHER_STATUS), message)
        self.java_class = java_class


def failure(error: HttpError | GravelerError) -> Answer:
    """Return the answer to a request that failed."""
    error = _remote(error)
    document = {
        "exception": error.java_class.rpartition(".")[2],
        "javaClassName": error.java_class,
        "message": str(error),
    }
    # for a refused token Hadoop's client shows only these words
    reason = str(error) if error.status == 401 else ""
    return Answer.json({"RemoteException": document}, error.status, reason)


def _remote(error: HttpError | GravelerError) -> RemoteError:
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, HttpError):
        return RemoteError(_BY_STATUS.get(error.status, IO), str(error), error.status)
    full = _FULL_STATUS if isinstance(error, StorageFullError) else 0
    known = (name for ours, name in _CLASSES if isinstance(error, ours))
    return RemoteError(next(known, IO), str(error), full)
