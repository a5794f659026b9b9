"""A few hours of Dagster under chaos; ``make chaos-dagster`` has hundreds, and every failure."""

import pytest

from tests.real.chaos.short import published_in_chaos

pytestmark = [pytest.mark.slow, pytest.mark.service("dagster"), pytest.mark.crash]

KINDS = (
    "undo of main, then what was lost runs again",
    "rollback, then it runs again",
    "SIGKILL of the task, a try is left",
    "SIGKILL of the parent, the task writes on",
    "SIGKILL of the publisher, after main moved",
    "terminate",
    "a backfill that Dagster splits, then an eager asset",
    "the code changes while it runs",
)


def test_main_holds_whole_hours_and_nothing_is_left_behind():
    published_in_chaos("dagster", KINDS)
