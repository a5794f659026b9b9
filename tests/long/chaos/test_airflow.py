"""A few hours of Airflow under chaos; ``make chaos-airflow`` has hundreds, and every failure."""

import pytest

from tests.real.chaos.short import published_in_chaos

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow"), pytest.mark.crash]

KINDS = (
    "undo of main, then what was lost runs again",
    "rollback, then it runs again",
    "SIGKILL of the parent, the task writes on",
    "SIGKILL of the publisher, after main moved",
    "clear a running run",
    "SIGKILL of the scheduler",
    "another deployment opens the same run",
    "exception in a child DAG",
    "SIGKILL of a teardown, a try is left",
    "it depends on the hour before",
    "the code changes between its steps",
)


def test_main_holds_whole_hours_and_nothing_is_left_behind():
    """The tasks run in two workers of a CeleryExecutor, on a lake in PostgreSQL and S3."""
    shown = published_in_chaos("airflow", KINDS)
    assert "worked on  worker-1, worker-2" in shown
