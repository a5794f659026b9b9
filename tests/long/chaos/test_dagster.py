"""A few hours of Dagster under chaos; ``make chaos-dagster`` has hundreds, and every failure."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.service("dagster"), pytest.mark.crash]

KINDS = (
    "SIGKILL of the task, a try is left",
    "SIGKILL of the parent, the task writes on",
    "SIGKILL of the publisher, after main moved",
    "terminate",
)


def test_main_holds_whole_hours_and_nothing_is_left_behind():
    command = [sys.executable, "-m", "tests.real.chaos", "dagster", "--kinds", ";".join(KINDS)]
    done = subprocess.run(
        [*command, "--leash", "--patience", "400"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hours published  4" in done.stdout
    assert "fsck  clean" in done.stdout
