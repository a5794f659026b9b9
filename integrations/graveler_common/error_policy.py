"""Which errors a retry cannot mend."""

from typing import Final

from graveler.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    ExpiredError,
    GateFailedError,
    GravelerError,
    InvalidInputError,
    LakeLockedError,
    MissingDependencyError,
    NewerFormatError,
    OlderFormatError,
    PermissionDeniedError,
    ProtectedBranchError,
    RefNotFoundError,
    RepositoryNotFoundError,
    RunNotFoundError,
    StateError,
)

_FINAL: Final = (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    ExpiredError,
    GateFailedError,
    InvalidInputError,
    MissingDependencyError,
    NewerFormatError,
    OlderFormatError,
    PermissionDeniedError,
    ProtectedBranchError,
    RefNotFoundError,
    RepositoryNotFoundError,
    RunNotFoundError,
    StateError,
)


def is_final(error: GravelerError) -> bool:
    """Return whether a retry of the same work would meet the same error.

    A store that is busy, a file that has not arrived and a lake that another process holds are
    not final.
    """
    return isinstance(error, _FINAL) and not isinstance(error, LakeLockedError)
