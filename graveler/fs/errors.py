"""graveler's errors as those of the operating system, which file libraries expect."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    CorruptionError,
    FencedError,
    GravelerError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    ProtectedBranchError,
    RetryableError,
)


class InvalidPathError(OSError, ValueError):
    """The address is not valid in a lake: fix it."""


_ERRORS: Final[tuple[tuple[type[GravelerError], type[OSError], int], ...]] = (
    (NotFoundError, FileNotFoundError, errno.ENOENT),
    (AlreadyExistsError, FileExistsError, errno.EEXIST),
    (ProtectedBranchError, PermissionError, errno.EACCES),
    (FencedError, PermissionError, errno.EPERM),
    (InvalidInputError, InvalidPathError, errno.EINVAL),
    (BackendUnavailableError, ConnectionError, errno.EHOSTUNREACH),
    (RetryableError, BlockingIOError, errno.EAGAIN),
    (OutcomeUnknownError, OSError, errno.EIO),
    (CorruptionError, OSError, errno.EIO),
)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise what goes wrong inside as an OSError about `path`, with ours as its cause."""
    try:
        yield
    except GravelerError as error:
        if isinstance(error, OSError):
            raise
        for ours, theirs, number in _ERRORS:
            if isinstance(error, ours):
                raise theirs(number, str(error), path) from error
        raise
