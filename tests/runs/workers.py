"""The tasks of test_tasks_killed: ``python -m tests.runs.workers folder handle step try files``."""

import sys
from pathlib import Path

import graveler
from graveler.errors import FencedError


def say(word):
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def main(folder, handle, name, number, files):
    """Run a try of a step, with files named after the try; print its progress."""
    with graveler.open(folder) as lake:
        run = lake.repository("flights").runs.attach(Path(handle).read_text())
        try:
            with run.step(name, try_number=int(number)) as step:
                step.put(f"{name}/latest", number.encode())
                for at in range(int(files)):
                    step.put(f"{name}/try {number} file {at}", number.encode())
                    say("put")
                say("joining")
        except FencedError:
            say("fenced")
        else:
            say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
