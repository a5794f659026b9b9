"""Transfers of many files with an S3 that answers after 30 ms, in parallel and one by one."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Final

from graveler.config import load_config, write_default_config
from graveler.lake import Repository
from graveler.lake.factory import connect
from graveler.repository import Branch
from graveler.testing.process import Call, Process
from tests.bench.lakes import new_repository, watched_lake
from tests.bench.measure import Result, at_least, clocked, progress
from tests.bench.network import OBJECTS_S

FILES: Final = 1_000
BYTES: Final = 100 << 10
_ONE_BY_ONE: Final = 50
_FASTER: Final = 4.0
_PROGRAM: Final = Path(__file__).with_name("programs") / "slow_s3.py"


def files(folder: Path) -> list[Result]:
    """Measure put_many and get_many, and count their calls to the stores."""
    progress(f"{FILES:,} files of {BYTES >> 10} KiB, {OBJECTS_S * 1e3:.0f} ms a request")
    with _slow_s3(OBJECTS_S) as port, _lake_on_s3(folder / "s3", port) as repo:
        results = _moved(repo)
    return [*results, _asked(folder / "asked")]


def _moved(repo: Repository) -> list[Result]:
    main = repo.branch("main")
    bodies = {f"in/{number:05}": os.urandom(BYTES) for number in range(FILES)}
    few = list(bodies)[:_ONE_BY_ONE]
    main.put_many({path: bodies[path] for path in few})  # connections are open from here on

    def put_few() -> None:
        for path in few:
            main.put(path, bodies[path])

    def get_few() -> None:
        for path in few:
            main.get(path)

    def get_all() -> None:
        for entry, content in main.get_many(list(bodies)):
            assert content == bodies[entry.path]

    return [
        _beside("put_many", clocked(put_few), clocked(lambda: main.put_many(bodies))),
        _beside("get_many", clocked(get_few), clocked(get_all)),
    ]


def _beside(name: str, few_s: float, many_s: float) -> Result:
    one_s, each_s = few_s / _ONE_BY_ONE, many_s / FILES
    return at_least(
        f"{name} of {FILES:,} files of {BYTES >> 10} KiB on S3, {OBJECTS_S * 1e3:.0f} ms a request",
        one_s / each_s,
        _FASTER,
        "the rate of one by one",
        f"{many_s:.1f} s; one by one {one_s * 1e3:.0f} ms a file, {one_s * FILES:.0f} s for as many",
    )


def _asked(folder: Path) -> Result:
    """Count the requests and statements for 1,000 files."""
    lake, _ = new_repository(folder, "bench")
    lake.close()
    process = Process()
    with watched_lake(folder, process) as watched:
        main: Branch = watched.repository("bench").branch("main")
        paths = [f"{number:04}" for number in range(FILES)]
        main.exists("x")
        process.calls.clear()
        main.put_many((path, b"x") for path in paths)
        put = _counted(process.calls)
        process.calls.clear()
        assert len(list(main.get_many(paths))) == FILES
        got = _counted(process.calls)
    holds = put["objects"] == FILES == got["objects"] and put["kv"] <= 8 and got["kv"] <= 8
    return Result(
        f"calls for {FILES:,} files",
        f"put_many {put['kv']} statements, get_many {got['kv']}",
        "at most 8 statements each, and one request a file",
        holds,
        f"requests: {put['objects']:,} and {got['objects']:,}",
    )


def _counted(calls: list[Call]) -> Counter[str]:
    return Counter(call.store for call in calls)


@contextmanager
def _slow_s3(seconds: float) -> Iterator[int]:
    """Run the server as a separate process, and yield its port."""
    with Popen([sys.executable, str(_PROGRAM), str(seconds)], stdout=PIPE, text=True) as server:
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
