"""Which failures Airflow need not try again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow.sdk.exceptions import AirflowFailException

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

__all__ = ["final_failures"]

_FINAL: Final[tuple[type[GravelerError], ...]] = (
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


@contextmanager
def final_failures() -> Iterator[None]:
    """Turn the errors that a second try would meet again into failures without one.

    The others, a busy store or a file that is not there yet, leave Airflow its retries; so does
    a lake that another process holds just now.
    """
    try:
        yield
    except LakeLockedError:
        raise
    except _FINAL as error:
        raise AirflowFailException(f"{error.code}: {error}") from error
