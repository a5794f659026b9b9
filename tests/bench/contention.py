"""Many processes merge into one branch at the same time, and many commit on one.

Other version stores were measured with the same loop on two cores: create a branch, add one path,
commit, merge into the one target branch.
"""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import graveler
from graveler.base.names import path_key
from graveler.committed.apply import apply
from graveler.errors import GravelerError, NoChangesError
from graveler.lake.factory import write_default_config
from graveler.model import Entry
from graveler.refs.mover import move
from graveler.testing.world import link_unseen
from graveler.values import stage_entry, staged_changes
from tests.bench.lakes import entries, entry
from tests.bench.measure import Result, at_least, ms, percentile, progress, reported
from tests.harness.servers.postgres import postgres_server, schema, socket_of

PROCESSES = 8
LOOPS = 25
COMMITTERS = 50
LARGE = 1_000_000
STORES = ("SQLite", "PostgreSQL")
FAIRNESS_LIMIT = 0.5  # 0.8 to 0.97 on an idle machine
_PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class _Share:
    """The work of one process."""

    seconds: float
    merges: list[float]
    failures: list[str]


def contention(folder: Path) -> list[Result]:
    """Return the figures of the loop and of the committers, on both stores."""
    results: list[Result] = []
    with postgres_server(durable=True) as server:
        for store in STORES:
            for size in (0, LARGE):
                place = folder / f"{store}-{size}"
                with _lake(place, store, socket_of(server)) as location:
                    _fill(location, size)
                    progress(f"{store}, {size:,} entries: {PROCESSES} processes")
                    results += _loops(location, store, size)
            place = folder / f"{store}-committers"
            with _lake(place, store, socket_of(server)) as location:
                _fill(location, 0)
                progress(f"{store}: {COMMITTERS} committers")
                results.append(_committers(location, store))
    return results


@contextmanager
def _lake(place: Path, store: str, socket: Path) -> Iterator[str]:
    if store == "SQLite":
        write_default_config(place)
        yield str(place)
        return
    with schema(socket) as url:
        write_default_config(place, kv_uri=url)
        yield str(place)


def _fill(location: str, size: int) -> None:
    """Make the repository; move main to a base of `size` entries as a commit would."""
    with graveler.open(location, create=True) as lake:
        repository = lake.create_repository("flights")
        main = repository.branch("main")
        link_unseen(main, [entry("README")])
        head = main.commit("begin")
        if not size:
            return
        stores = repository.stores
        staged = (
            (key := path_key(base.path), stage_entry(key, base)) for base in entries("input", size)
        )
        tree = apply(stores.ranges, head.metarange, staged_changes(staged), stores.splitting)
        commit = stores.refs.commits.add(
            metarange=tree.metarange,
            parents=(head.id,),
            message="base",
            committer="",
            created=stores.clock.now(),
            metadata={},
        )
        move(
            stores.refs,
            "main",
            lambda record: replace(record, commit_id=commit.id),
            action="import",
        )


def _loop(location: str, number: int, start: Barrier, answers: Any) -> None:
    merges: list[float] = []
    failures: list[str] = []
    with graveler.open(location) as lake:
        repository = lake.repository("flights")
        repository.log("main", limit=1)
        start.wait(_PATIENCE_S)
        began = time.perf_counter()
        for turn in range(LOOPS):
            name = f"w{number}-{turn}"
            try:
                branch = repository.create_branch(name, source="main")
                file = entry(f"input/2014/{number:02}/{turn:02}.parquet")
                link_unseen(branch, [file])
                branch.commit(name)
                merging = time.perf_counter()
                repository.merge(name, into="main")
                merges.append(time.perf_counter() - merging)
            except GravelerError as error:
                failures.append(repr(error))
        answers.put(_Share(time.perf_counter() - began, merges, failures))


def _commit(location: str, number: int, start: Barrier, answers: Any) -> None:
    failures: list[str] = []
    with graveler.open(location) as lake:
        branch = lake.repository("flights").branch("main")
        start.wait(_PATIENCE_S)
        began = time.perf_counter()
        try:
            link_unseen(branch, [Entry(f"c/{number:03}", f"data/x/{number}", 1)])
            branch.commit(f"c{number}")
        except NoChangesError:
            pass  # another process has committed this path
        except GravelerError as error:
            failures.append(repr(error))
        answers.put(_Share(time.perf_counter() - began, [], failures))


def together(work: Any, location: str, count: int) -> tuple[float, list[_Share]]:
    """Start all processes at once; return the total seconds and the work of each process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["graveler.lake", "graveler.kv.drivers.sqlite", "graveler.kv.drivers.postgres"]
    )
    start, answers = context.Barrier(count + 1), context.Queue()
    processes = [
        context.Process(target=work, args=(location, number, start, answers))
        for number in range(count)
    ]
    for process in processes:
        process.start()
    start.wait(_PATIENCE_S)
    began = time.perf_counter()
    shares = [answers.get(timeout=_PATIENCE_S) for _ in processes]
    seconds = time.perf_counter() - began
    for process in processes:
        process.join()
    return seconds, shares


def _loops(location: str, store: str, size: int) -> list[Result]:
    seconds, shares = together(_loop, location, PROCESSES)
    merges = [merge for share in shares for merge in share.merges]
    failures = [failure for share in shares for failure in share.failures]
    with graveler.open(location) as lake:
        landed = sum(1 for _ in lake.repository("flights").ref("main").entries("input/2014/"))
    count = PROCESSES * LOOPS
    fairness = min(share.seconds for share in shares) / max(share.seconds for share in shares)
    where = f"{store}, {size:,} entries" if size else f"{store}, almost empty"
    return [
        Result(
            f"{PROCESSES} processes branch, link, commit and merge into one branch ({where})",
            f"{len(failures)} of {count} fail, {landed} land",
            "none fails, all land",
            not failures and landed == count,
        ),
        at_least(
            f"seconds of the fastest process ({where})",
            fairness,
            FAIRNESS_LIMIT,
            "the slowest process's",
        ),
        reported(
            f"{PROCESSES} processes branch, link, commit and merge into one branch ({where})",
            f"{count / seconds:.0f} loops/s",
            f"a merge: median {ms(percentile(merges, 0.5))}, p99 {ms(percentile(merges, 0.99))}",
        ),
    ]


def _committers(location: str, store: str) -> Result:
    seconds, shares = together(_commit, location, COMMITTERS)
    failures = [failure for share in shares for failure in share.failures]
    with graveler.open(location) as lake:
        repository = lake.repository("flights")
        landed = sum(1 for _ in repository.ref("main").entries("c/"))
        commits = sum(1 for _ in repository.log("main")) - 2
        left = len(list(repository.branch("main").uncommitted()))
    return Result(
        f"{COMMITTERS} processes commit on one branch at once ({store})",
        f"{landed} of {COMMITTERS} land",
        "all",
        landed == COMMITTERS and not failures and not left,
        f"{commits} commits in {seconds:.1f} s, {len(failures)} failed, {left} left staged",
    )
