"""Programs that tests run in separate processes: the files in the folders ``programs``."""

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FORKS = "ignore::DeprecationWarning"
"""For programs that fork while threads run; Python 3.12 and later warn about that."""


def command(module: str, *arguments: object, warnings: str = "error") -> list[str]:
    """Return the command that runs ``tests.<module>``; its working folder must be `ROOT`."""
    return [sys.executable, "-W", warnings, "-m", f"tests.{module}", *map(str, arguments)]


def start_program(module: str, *arguments: object, **options: Any) -> Any:
    """Start a program whose input and output are pipes."""
    return subprocess.Popen(
        command(module, *arguments),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def output_of(
    module: str, *arguments: object, warnings: str = "error", timeout: float = 60, **options: Any
) -> str:
    """Run a program and return its output; fail if it fails or prints an error."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command(module, *arguments, warnings=warnings),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )
    assert (done.stderr, done.returncode) == ("", 0), done.stdout + done.stderr
    return done.stdout
