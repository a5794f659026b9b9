"""Processes that work on a key-value store during a test, and the fixture that starts them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
Worker: TypeAlias = "subprocess.Popen[str]"
StartWorker: TypeAlias = Callable[..., Worker]


@pytest.fixture
def start_worker() -> Iterator[StartWorker]:
    """Start jobs of tests/harness/kv_jobs.py; those still running are killed after the test."""
    running: list[Worker] = []

    def start(job: str, uri: str, *arguments: str) -> Worker:
        worker = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.harness.kv_jobs", job, uri, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(worker)
        return worker

    yield start
    for worker in running:
        worker.kill()
        worker.communicate()
