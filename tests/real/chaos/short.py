"""A run of chaos of a few minutes, with one hour for each kind of event."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def published_in_chaos(orchestrator: str, kinds: Sequence[str]) -> str:
    """Run an hour of each kind of event, check that all are published, and return the output."""
    command = [sys.executable, "-m", "tests.real.chaos", orchestrator, "--kinds", ";".join(kinds)]
    done = subprocess.run(
        [*command, "--leash", "--patience", "600"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"hours published  {len(kinds)}" in done.stdout
    assert "fsck  clean" in done.stdout
    return done.stdout
