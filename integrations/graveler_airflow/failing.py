"""Which failures Airflow need not try again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from airflow.sdk.exceptions import AirflowFailException

from graveler.errors import (
    ConflictError,
    CorruptionError,
    FencedError,
    GateFailedError,
    GravelerError,
    InvalidInputError,
    PermissionDeniedError,
    ProtectedBranchError,
    RepositoryNotFoundError,
    RunStateError,
)

__all__ = ["final_failures"]

_FINAL: Final[tuple[type[GravelerError], ...]] = (
    ConflictError,
    CorruptionError,
    FencedError,
    GateFailedError,
    InvalidInputError,
    PermissionDeniedError,
    ProtectedBranchError,
    RepositoryNotFoundError,
    RunStateError,
)


@contextmanager
def final_failures() -> Iterator[None]:
    """Turn the errors that a second try would meet again into failures without one.

    The others, a busy store or a file that is not there yet, leave Airflow its retries.
    """
    try:
        yield
    except _FINAL as error:
        raise AirflowFailException(f"{error.code}: {error}") from error
