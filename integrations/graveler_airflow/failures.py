"""Errors of graveler as failures of a task: with or without a retry."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from graveler.errors import GravelerError
from graveler_common.failures import is_final


@contextmanager
def final_failures() -> Iterator[None]:
    """Turn errors for which a retry does not help into failures without a retry.

    The failure has the traceback and the cause of the error and replaces it. If the error were its
    cause, it would be in the task's log twice.
    """
    try:
        yield
    except GravelerError as error:
        if not is_final(error):
            raise
        failure = AirflowFailException(f"{error.code}: {error}")
        raise failure.with_traceback(error.__traceback__) from error.__cause__
