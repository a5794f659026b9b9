"""Errors that fail a task at once, without the retries that Airflow has for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from graveler.errors import GravelerError
from graveler_common.error_policy import is_final


@contextmanager
def final_failures() -> Iterator[None]:
    """Turn errors that a retry cannot mend into failures without a retry."""
    try:
        yield
    except GravelerError as error:
        if not is_final(error):
            raise
        raise AirflowFailException(f"{error.code}: {error}") from error
