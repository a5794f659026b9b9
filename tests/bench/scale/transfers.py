"""Rows of many files and of whole operations over a simulated network."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from statistics import median
from subprocess import PIPE, Popen
from typing import Any

import graveler
from graveler.config import load_config
from graveler.lake import Repository
from graveler.lake.factory import connect, write_default_config
from graveler.testing.process import Call, Process
from tests.bench.lakes import watched_lake
from tests.bench.measure import Result, clocked, ms, progress
from tests.bench.scale.place import Place
from tests.bench.scale.table import at_most

_SERVER = Path(__file__).parents[1] / "programs" / "slow_s3.py"
FILE_BYTES = 100 << 10
OBJECTS_S = 0.030
RECORDS_S = 0.001
WALL = {
    "put": 40,
    "branch, link, commit, merge": 130,
    "run of 1,000 links with a gate": 200,
    "run of three steps": 400,
}
"""Milliseconds by operation of `tests.harness.statements`."""


class _Distance:
    """The simulated distance of the stores; no call waits while `near` is set.

    Attributes:
        near: Whether no call waits.
        waits: When each request to the object store began and ended.
    """

    def __init__(self) -> None:
        self.near = False
        self.waits: list[tuple[float, float]] = []

    def __call__(self, call: Call) -> None:
        """Wait for the extra time of a distant call."""
        if self.near:
            return
        began = time.perf_counter()
        time.sleep(OBJECTS_S if call.store == "objects" else RECORDS_S)
        if call.store == "objects":
            self.waits.append((began, time.perf_counter()))

    @property
    def rounds(self) -> int:
        """Lowest number of rounds in which the requests followed each other."""
        count, last = 0, 0.0
        for began, ended in sorted(self.waits, key=itemgetter(1)):
            if began >= last:
                count, last = count + 1, ended
        return count


@contextmanager
def _far(folder: Path) -> Iterator[tuple[Repository, Process, _Distance]]:
    """Yield a repository with distant stores."""
    with graveler.init(folder) as lake:
        lake.create_repository("bench")
    distance = _Distance()
    process = Process(distance)
    with watched_lake(folder, process) as lake:
        yield lake.repository("bench"), process, distance


@contextmanager
def _slow_s3(seconds: float) -> Iterator[int]:
    """Run the server as a separate process, and yield its port."""
    with Popen([sys.executable, str(_SERVER), str(seconds)], stdout=PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


@contextmanager
def _lake_on_s3(folder: Path, port: int) -> Iterator[Repository]:
    write_default_config(folder)
    options = {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key": "key",
        "secret_key": "secret",
    }
    config = replace(load_config(folder), storage_uri="s3://bucket/lake", storage_options=options)
    with connect(config) as lake:
        yield lake.create_repository("bench")


def many_files(place: Place) -> list[Result]:
    """Put and get a thousand files by one call each, with an S3 that answers late."""
    files = place.entries // 10_000
    progress(f"put_many and get_many of {files:,} files")
    bodies = {f"input/{number:05d}": os.urandom(FILE_BYTES) for number in range(files)}
    with (
        _slow_s3(OBJECTS_S) as port,
        _lake_on_s3(place.scratch / "files", port) as repo,
    ):
        branch: Any = repo.branch("main")
        branch.put_many({"first": b"connections are open from here on"})
        put = clocked(lambda: branch.put_many(bodies))
        found: dict[str, bytes] = {}
        got = clocked(
            lambda: found.update((entry.path, data) for entry, data in branch.get_many([*bodies]))
        )
        assert found == bodies
    return [
        at_most(
            f"`{name}` of {files:,} files of 100 KiB at 30 ms a request",
            seconds,
            3,
            " s",
            "S3's client, and a server of another process that waits before it answers",
        )
        for name, seconds in (("put_many", put), ("get_many", got))
    ]


def wall(place: Place) -> list[Result]:
    """Do the counted operations with 30 ms more for each request and 1 ms for each statement."""
    operations = import_module("tests.harness.statements").OPERATIONS
    results = []
    with _far(place.scratch / "wall") as (repo, process, distance):
        for name, limit in WALL.items():
            progress(f"far away: {name}")
            seconds = []
            for number in range(place.repeats + 1):
                distance.near = True
                operation = operations[name](repo, number)
                distance.near = False
                process.calls.clear()
                distance.waits.clear()
                seconds.append(clocked(operation))
            asked = [call.store for call in process.calls]
            results.append(
                at_most(
                    f"{name}, objects 30 ms and statements 1 ms away",
                    median(seconds[1:]) * 1e3,
                    limit,
                    " ms",
                    f"{asked.count('objects')} requests in {distance.rounds} rounds and "
                    f"{asked.count('kv')} calls on records; the first time {ms(seconds[0])}; "
                    f"median of {place.repeats} more",
                )
            )
    return results
