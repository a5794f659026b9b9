"""Errors as WebHDFS reports them: a status and the name of a Java exception.

Hadoop's client throws an exception of that class, with the message, so that Spark shows it.
"""

from typing import Any, Final

from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    GravelerError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    ProtectedBranchError,
    RetryableError,
)

ACCESS: Final = "org.apache.hadoop.security.AccessControlException"
ARGUMENT: Final = "java.lang.IllegalArgumentException"
EXISTS: Final = "org.apache.hadoop.fs.FileAlreadyExistsException"
IO: Final = "java.io.IOException"
NOT_EMPTY: Final = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
NOT_FOUND: Final = "java.io.FileNotFoundException"
PARENT: Final = "org.apache.hadoop.fs.ParentNotDirectoryException"
RETRY: Final = "org.apache.hadoop.ipc.RetriableException"
UNSUPPORTED: Final = "java.lang.UnsupportedOperationException"

_STATUS: Final = {ARGUMENT: 400, UNSUPPORTED: 400, NOT_FOUND: 404, RETRY: 503}
_OTHER_STATUS: Final = 403

_CLASSES: Final[tuple[tuple[type[GravelerError], str], ...]] = (
    (NotFoundError, NOT_FOUND),
    (AlreadyExistsError, EXISTS),
    (PermissionDeniedError, ACCESS),
    (ProtectedBranchError, ACCESS),
    (FencedError, ACCESS),
    (InvalidInputError, ARGUMENT),
    (RetryableError, RETRY),
)


class RemoteError(Exception):
    """An error that the client throws again.

    Attributes:
        java_class: Name of the exception's class.
        status: Status of the answer.
    """

    def __init__(self, java_class: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.java_class = java_class
        self.status = status or _STATUS.get(java_class, _OTHER_STATUS)

    @property
    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "RemoteException": {
                "exception": self.java_class.rpartition(".")[2],
                "javaClassName": self.java_class,
                "message": str(self),
            }
        }

    @classmethod
    def of(cls, error: GravelerError) -> "RemoteError":
        """Return the error that the client sees for an error of the lake."""
        for ours, java_class in _CLASSES:
            if isinstance(error, ours):
                return cls(java_class, str(error))
        return cls(IO, str(error))
