"""Four tasks of one run, in separate processes at the same time, are killed and run again.

The run's branch holds the last success of each step, complete, and nothing else. The process of a
task is ``python -m tests.real.test_tasks_killed folder handle step try``.
"""

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import graveler
from graveler.errors import FencedError
from tests.harness.worlds import tree

ROOT = Path(__file__).parents[2]
STEPS = ("ingest", "clean", "join", "report")
FILES = 5


def files_of(step, number):
    return {f"{step}/latest": number} | {
        f"{step}/try {number} file {at}": number for at in range(FILES)
    }


def work(folder, handle, name, number):
    """Run a try of a step, and print its progress."""
    with graveler.open(folder) as lake:
        run = lake.repository("flights").runs.attach(handle)
        try:
            with run.step(name, try_number=int(number)) as step:
                for path, text in files_of(name, number).items():
                    step.put(path, text.encode())
                    sys.stdout.write("put\n")
                    sys.stdout.flush()
        except FencedError:
            sys.stdout.write("fenced\n")
        else:
            sys.stdout.write("done\n")


def end(task):
    """Wait for the end of a process; return its last line of output."""
    said = task.communicate(timeout=300)[0].splitlines()
    return said[-1] if said else ""


@pytest.mark.slow
def test_the_run_holds_the_last_success_of_each_step_whole(tmp_path):
    chance = random.Random(1)
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("flights")
        run = repo.runs.open("hourly 05")

        def start(step, number):
            given = [tmp_path / "lake", run.handle.to_json(), step, number]
            command = [sys.executable, "-m", "tests.real.test_tasks_killed", *map(str, given)]
            return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

        def hold(last):
            files = [files_of(step, str(number)) for step, number in last.items()]
            return {path: text for made in files for path, text in made.items()}

        last = {}
        for number in (1, 2, 3):  # some of four tasks are killed, and all run again
            tasks = {step: start(step, number) for step in chance.sample(STEPS, 4)}
            for step, task in tasks.items():
                doomed = number < 3 and chance.random() < 0.6
                if doomed:
                    for _ in range(chance.randint(0, FILES + 1)):
                        task.stdout.readline()
                    with suppress(subprocess.TimeoutExpired):
                        task.wait(chance.random() * 0.05)
                    task.kill()
                said = end(task)
                assert said == "done" or doomed
                if said == "done":
                    last[step] = number
        assert tree(run) == hold(last)

        # one task is cleared after the run has continued; a zombie of the old attempt still runs
        zombie = start("ingest", 4)
        zombie.stdout.readline()
        run.park("its orchestrator marked it failed")
        run = repo.runs.open("hourly 05")
        assert end(start("clean", 5)) == "done"
        last["clean"] = 5
        assert end(zombie) in ("fenced", "done")
        if zombie.returncode == 0 and run.exists("ingest/try 4 file 0"):
            last["ingest"] = 4  # the zombie joined before the run was parked
        assert tree(run) == hold(last)
        run.publish()
        assert tree(repo.ref("main")) == hold(last)
        assert [record.name for record in repo.branches(hidden=True)] == ["main"]


if __name__ == "__main__":
    work(*sys.argv[1:])
