"""A few hours of Airflow under chaos; ``make chaos-airflow`` has hundreds, and every failure."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow"), pytest.mark.crash]

KINDS = (
    "SIGKILL of the parent, the task writes on",
    "SIGKILL of the publisher, after main moved",
    "clear a running run",
    "SIGKILL of the scheduler",
)


def test_main_holds_whole_hours_and_nothing_is_left_behind():
    """With a CeleryExecutor and two workers on a lake in PostgreSQL and S3."""
    command = [sys.executable, "-m", "tests.real.chaos", "airflow", "--kinds", ";".join(KINDS)]
    done = subprocess.run(
        [*command, "--leash", "--patience", "400"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hours published  4" in done.stdout
    assert "fsck  clean" in done.stdout
    assert "worked on  worker-1, worker-2" in done.stdout
