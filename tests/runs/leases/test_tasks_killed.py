"""Four tasks of one run, in separate processes at the same time, are killed and run again.

In every case the run's branch holds the last success of each step, complete, and nothing else.
"""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import graveler
from tests.harness.worlds import tree

ROOT = Path(__file__).parents[3]
KEY = "hourly 05"
STEPS = ("ingest", "clean", "join", "report")
FILES = 5


class Task:
    """One try of a step, in a separate process."""

    def __init__(self, folder, handle, step, number):
        self.step, self.number = step, number
        command = [sys.executable, "-m", "tests.runs.workers"]
        self.process = subprocess.Popen(
            [*command, str(folder), str(handle), step, str(number), str(FILES)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self):
        """Wait for one line of output."""
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def kill(self, lines, wait):
        """Kill the process with SIGKILL, `wait` seconds after it has printed `lines` lines."""
        for _ in range(lines):
            self.hear()
        try:
            self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
        return self.end()

    def end(self):
        """Wait for the end of the process; return its last line of output."""
        said = self.process.communicate(timeout=300)[0].splitlines()
        return said[-1] if said else ""

    @property
    def files(self):
        """Return the files that the try leaves when it succeeds."""
        text = str(self.number)
        return {f"{self.step}/latest": text} | {
            f"{self.step}/try {text} file {at}": text for at in range(FILES)
        }


def wanted(successes):
    return {path: text for task in successes.values() for path, text in task.files.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_the_run_holds_the_last_success_of_each_step_whole(tmp_path, seed):
    chance = random.Random(seed)
    handle = tmp_path / "handle"
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("flights")
        run = repo.runs.open(KEY)
        handle.write_text(run.handle.to_json())

        def start(step, number):
            return Task(tmp_path / "lake", handle, step, number)

        successes = {}
        tasks = [start(step, 1) for step in STEPS]
        for number in (2, 3):  # some of four tasks are killed, and all run again
            again = []
            for task in tasks:
                doomed = chance.random() < 0.6
                said = (
                    task.kill(chance.randint(0, FILES + 1), chance.random() * 0.05)
                    if doomed
                    else task.end()
                )
                assert said == "done" or doomed
                if said == "done":
                    successes[task.step] = task
                again.append(task.step)
            chance.shuffle(again)
            tasks = [start(step, number) for step in again]
        for task in tasks:
            assert task.end() == "done"
            successes[task.step] = task
        assert tree(run) == wanted(successes)

        # one task is cleared after the run has continued; a zombie of the old attempt still runs
        zombie = start("ingest", 4)
        zombie.hear()
        run.park("its orchestrator marked it failed")
        run = repo.runs.open(KEY)
        handle.write_text(run.handle.to_json())
        cleared = start("clean", 5)
        assert cleared.end() == "done"
        successes["clean"] = cleared
        assert zombie.end() in ("fenced", "done")
        if zombie.process.returncode == 0 and run.exists("ingest/try 4 file 0"):
            successes["ingest"] = zombie  # the zombie joined before the run was parked
        assert tree(run) == wanted(successes)
        run.publish()
        assert tree(repo.ref("main")) == wanted(successes)
        assert [record.name for record in repo.branches(hidden=True)] == ["main"]
