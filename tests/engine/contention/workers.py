"""The workers of test_processes: ``python -m tests.engine.contention.workers verb folder``."""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count

import graveler
from graveler.errors import NoChangesError
from graveler.testing.faults import FaultyKVStore, FaultyObjectStore, Script


def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def merge(folder, name, rounds):
    """Branch, write, commit and merge into main, `rounds` times; print what is acknowledged."""
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        for number in range(int(rounds)):
            branch = repo.create_branch(f"{name}-{number}")
            path = branch.put(f"{name}/{number:02}", name.encode()).path
            branch.commit(path)
            merged = repo.merge(branch.name, "main")
            repo.delete_branch(branch.name)
            say(path, merged.commit.id)


def commit(folder, start):
    """Write and commit in an endless loop; print each commit when it is acknowledged."""
    with graveler.open(folder) as lake:
        main = lake.repository("flights").branch("main")
        for number in count(int(start)):
            path = main.put(f"p{number:06}", str(number).encode()).path
            say("put", path)
            try:
                made = main.commit(path)
            except NoChangesError:
                continue
            say("commit", path, made.id)


def publish(folder, name):
    """Open, write and publish runs in an endless loop; print each publish."""
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        for number in count():
            with repo.run(f"{name} {number}") as run:
                with run.step("work") as step:
                    step.put(f"{name}/{number:04}", b"1")
            assert run.result is not None
            say(run.result.commit.id)


def pack(folder, number, moment):
    """Pack main, and be killed before or after call `number` on the stores; print the end."""
    script = Script()
    with graveler.open(folder) as lake:
        lake._kv = FaultyKVStore(lake._kv, script)
        open_store = lake._open_store
        lake._open_store = lambda uri: FaultyObjectStore(open_store(uri), script)  # type: ignore[method-assign]
        repo = lake.repository("flights")
        script.arm(int(number), lambda _: os.kill(os.getpid(), signal.SIGKILL), moment=moment)
        repo.pack()
        script.disarm()
        say("packed")


def open_lake(folder):
    """Try to open the lake; print the outcome."""
    try:
        with graveler.open(folder):
            say("open")
    except graveler.errors.LakeLockedError as error:
        say(type(error).__name__)


VERBS: dict[str, Callable[..., None]] = {
    "merge": merge,
    "commit": commit,
    "publish": publish,
    "pack": pack,
    "open": open_lake,
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
