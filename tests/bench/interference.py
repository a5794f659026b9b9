"""Reads and staged writes on a branch while a million staged entries of it are committed."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from graveler.base.names import path_key
from graveler.config import load_config
from graveler.lake import Branch
from graveler.lake.factory import connect
from graveler.model import Entry
from graveler.testing.world import link_unseen
from graveler.values import stage_entry
from tests.bench.lakes import entries, new_repository
from tests.bench.measure import Result, at_most, clocked, ms, percentile, progress

COUNT = 1_000_000
TURNS = 5
REST_SECONDS = 4.0
# A commit keeps the cores and the disk busy. A write syncs SQLite's log, and waits for the syncs of the
# ranges: 1.1 to 1.3 and 2.7 to 6.2 at the 99th percentile on two cores.
LIMITS = {"read": 2.0, "write": 8.0}

_Samples = dict[str, list[float]]


def interference(folder: Path) -> list[Result]:
    """Measure at rest and during another process's commit, in turns."""
    progress(f"preparing {COUNT:,} entries")
    staged = [
        (key := path_key(entry.path), stage_entry(key, entry)) for entry in entries("input", COUNT)
    ]
    rest: _Samples = {"read": [], "write": []}
    during: _Samples = {"read": [], "write": []}
    commits = []
    for turn in range(TURNS):
        progress(f"staging {COUNT:,}, at rest and beside their commit, turn {turn + 1} of {TURNS}")
        commits.append(_turn(folder / f"turn-{turn}", staged, rest, during))
    names = {"read": "reads (stat)", "write": "staged writes (link)"}
    return [
        _result(name, LIMITS[kind], rest[kind], during[kind], percentile(commits, 0.5))
        for kind, name in names.items()
    ]


def _result(
    name: str, limit: float, rest: list[float], during: list[float], commit: float
) -> Result:
    return at_most(
        f"p99 of {name} while 1,000,000 staged entries are committed",
        percentile(during, 0.99) / percentile(rest, 0.99),
        limit,
        "that at rest",
        f"p99 {ms(percentile(during, 0.99))} and {ms(percentile(rest, 0.99))}, "
        f"median {ms(percentile(during, 0.5))} and {ms(percentile(rest, 0.5))}, "
        f"greatest {ms(max(during))} and {ms(max(rest))}; {len(during):,} and {len(rest):,} "
        f"samples; the commit, another process's, took {commit:.1f} s",
    )


def _turn(
    folder: Path, staged: list[tuple[bytes, bytes]], rest: _Samples, during: _Samples
) -> float:
    """Add one turn's samples; return the seconds of the commit."""
    lake, repo = new_repository(folder, "bench")
    with lake:
        token = repo.stores.refs.branches.get("main").staging_token
        repo.stores.staging.set_many(token, staged)
        main = repo.branch("main")
        paths = [key.decode() for key, _ in staged[:: COUNT // 10_000]]
        ends = time.perf_counter() + REST_SECONDS
        with _Committer(folder) as committer:
            _sample(main, paths, rest, lambda: time.perf_counter() < ends)
            committer.start()
            return _sample(main, paths, during, committer.is_alive)


def _sample(main: Branch, paths: list[str], into: _Samples, continues: Callable[[], bool]) -> float:
    chosen = random.Random(7)
    started = time.perf_counter()
    number = 0
    while continues():
        path = chosen.choice(paths)
        into["read"].append(clocked(lambda: main.stat(path)))  # noqa: B023 - called now
        fresh = Entry(path=f"other/{number:09d}", address=f"data/{number:032x}/file", size=1)
        into["write"].append(clocked(lambda: link_unseen(main, [fresh])))  # noqa: B023 - called now
        number += 1
    return time.perf_counter() - started


class _Committer:
    """Another process: it opens the lake, commits once `start` is called, and closes the lake."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.interference", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._waiting = Thread(target=self._wait_for_commit)

    def __enter__(self) -> "_Committer":
        self._line()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.wait() != 0:
            raise AssertionError("the committer failed")
        self._waiting.join()

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.close()
        self._waiting.start()

    def is_alive(self) -> bool:
        """Return whether the commit has not returned yet."""
        return self._waiting.is_alive()

    def _wait_for_commit(self) -> None:
        self._line()

    def _line(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()


if __name__ == "__main__":
    with connect(load_config(sys.argv[1])) as opened:
        branch = opened.repository("bench").branch("main")
        print("ready", flush=True)
        sys.stdin.readline()
        branch.commit("a million")
        print("committed", flush=True)
