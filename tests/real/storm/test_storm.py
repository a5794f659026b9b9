"""Four writers in endless loops, fast hours, and a committer that is killed at call after call."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_every_acknowledged_file_is_on_main_or_in_quarantine(policy, tmp_path):
    """The storm forks, so it needs a separate process. `make storm` kills at every single call."""
    storm = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.real.storm",
            tmp_path,
            "--policy",
            policy,
            "--stride",
            "13",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert storm.returncode == 0, storm.stderr
    assert "lost 0" in storm.stdout
    figures = storm.stdout.split("killed: ")[1].split()
    good, bad, runs, undone, *_ = (int(word) for word in figures if word.isdigit())
    assert min(good, bad) >= 3, storm.stdout
    assert runs >= 5, storm.stdout
    assert undone >= 1, storm.stdout
