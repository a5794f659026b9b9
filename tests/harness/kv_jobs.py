"""The jobs that tests run in separate processes: ``-m tests.harness.kv_jobs``."""

# A worker reports on its standard output.
# ruff: noqa: T201

import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from graveler.errors import GravelerError, PreconditionFailedError
from graveler.kv.registry import open_kv
from graveler.kv.store import ABSENT, KVStore


def increment(store: KVStore, times: str) -> None:
    """Add to a counter by compare-and-set."""
    done = 0
    while done < int(times):
        stored = store.get("p", b"counter")
        assert stored is not None
        try:
            store.set_if("p", b"counter", b"%d" % (int(stored.value) + 1), stored.predicate)
        except PreconditionFailedError:
            continue
        done += 1


def write(store: KVStore, first: str) -> None:
    """Write without end, in three ways, and print which number was acknowledged."""
    number = int(first)
    while True:
        key = b"%08d" % number
        store.set_if("set_if", key, key, ABSENT)
        store.set("set", key, key)
        store.set_many("set_many", ((key + b"%d" % part, key) for part in range(5)))
        print(number, flush=True)
        number += 1


def take_turns(store: KVStore, times: str) -> None:
    """Add to a counter in two steps; only the turn keeps other processes out."""
    for _ in range(int(times)):
        with store.turn("counter", 60) as had:
            assert had
            stored = store.get("p", b"counter")
            assert stored is not None
            store.set("p", b"counter", b"%d" % (int(stored.value) + 1))


def keep_turn(store: KVStore) -> None:
    """Report that the process has the turn, and keep it until the input ends."""
    with store.turn("counter", 60) as had:
        print("had" if had else "not had", flush=True)
        sys.stdin.read()


def fork_in_turn(store: KVStore) -> None:
    """Fork within a turn; report whether child and parent have the turn then and afterwards."""
    read, write = os.pipe()
    with store.turn("counter", 60):
        child = os.fork()
        if child == 0:
            with store.turn("counter", 0.05) as had:
                print("child, within:", had, flush=True)
            os.write(write, b".")
        else:
            os.read(read, 1)
    with store.turn("counter", 60) as had:
        print("child, after:" if child == 0 else "parent, after:", had, flush=True)
    if child != 0:
        assert os.waitpid(child, 0) == (child, 0)


def hold(_store: KVStore) -> None:
    """Report that the store is open, and keep it open until the input ends."""
    print("open", flush=True)
    sys.stdin.read()


def overflow(store: KVStore) -> None:
    """Write until the system refuses; print the number of acknowledged writes and the error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    number = 0
    try:
        while True:
            store.set_if("p", b"%06d" % number, b"v" * 1000, ABSENT)
            number += 1
    except GravelerError as error:
        print(number, error.code)
    try:
        store.set("p", b"unconditional", b"v" * 1000)
    except GravelerError as error:
        print(error.code)


def fork(store: KVStore) -> None:
    """Use one store on both sides of a fork; report what the child reads."""
    store.set("p", b"parent", b"before")
    scan = store.scan("p")
    inherited = _open_files()
    child = os.fork()
    if child == 0:
        try:
            store.set("p", b"child", b"was here")
            found = sorted(dict(store.scan("p")))
            own = "its own" if _open_files() > inherited else "the parent's"
            print("child:", found, "by", own, "connection", flush=True)
        except GravelerError as error:
            print("child:", error.code, flush=True)
        finally:
            store.close()
            sys.exit()
    assert os.waitpid(child, 0) == (child, 0)
    store.set("p", b"parent", b"after")
    print("parent:", sorted(scan), flush=True)


def fork_beside_writers(store: KVStore, times: str) -> None:
    """Fork while other threads write; each child also writes, and reports its result."""
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    stopped = Event()

    def write_on(partition: str) -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            store.set(partition, b"%d" % (number % 50), b"v" * 100)
            store.set_many(partition, ((b"%d" % key, b"v") for key in range(20)))
            stopped.wait(0.002)  # otherwise a child might wait for its turn without end

    writers = [Thread(target=write_on, args=(f"writer {number}",)) for number in range(3)]
    for writer in writers:
        writer.start()
    statuses = set()
    for number in range(int(times)):
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # ends a child that waits without end
            try:
                store.set("children", b"%d" % number, b"was here")
                os._exit(0)
            finally:
                os._exit(1)
        statuses.add(os.waitpid(child, 0)[1])
    stopped.set()
    for writer in writers:
        writer.join()
    print(statuses, len(dict(store.scan("children"))), flush=True)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def main() -> None:
    """Run the job of the first argument on the store of the second argument."""
    job, uri, *rest = sys.argv[1:]
    jobs: dict[str, Callable[..., None]] = {
        "increment": increment,
        "write": write,
        "take_turns": take_turns,
        "keep_turn": keep_turn,
        "fork_in_turn": fork_in_turn,
        "hold": hold,
        "overflow": overflow,
        "fork": fork,
        "fork_beside_writers": fork_beside_writers,
    }
    with open_kv(uri) as store:
        jobs[job](store, *rest)


if __name__ == "__main__":
    main()
