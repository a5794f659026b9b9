"""Which errors fail a task without a retry."""

from graveler.errors import (
    TRANSIENT,
    GravelerError,
    InternalError,
    NotFoundError,
    ObjectNotFoundError,
)

_TRANSIENT = (
    *TRANSIENT,
    InternalError,
    ObjectNotFoundError,  # the file may arrive later
)


def is_final(error: GravelerError) -> bool:
    """Return whether a retry of the same work would give the same error."""
    # a plain NotFoundError is about a lake or a local file, which may appear later
    return not isinstance(error, _TRANSIENT) and type(error) is not NotFoundError
