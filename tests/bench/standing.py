"""The cost of a retry, a rollback and a tick in a long history."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path

from graveler.base.background import batches
from graveler.lake import Repository
from graveler.model import Commit
from graveler.refs.commits import id_of
from graveler.testing.process import Process
from tests.bench.lakes import new_repository, watched_lake
from tests.bench.measure import Result, at_most, ms, progress

LONG = 100_000
SHORT = 10
KEY = "hourly 2013-01-01T05:00Z"
_PUBLISHES = 10  # every tenth commit publishes the run again, with equal content
_TURNS = 7
HOURS = 2
FILES = 10_000
RERUNS = 3
WARM = 1.5
COLD = 3.0

Act = Callable[[Repository, int], object]


def standing(folder: Path) -> list[Result]:
    """Measure a retry, a rollback and a tick above few and above many commits."""
    places = {size: folder / f"history-{size}" for size in (SHORT, LONG)}
    for size, place in places.items():
        progress(f"a history of {size:,} commits")
        _fill(place, size)
    results = [*_reruns(folder / "reruns")]
    for name, act in (("retry", _retry), ("rollback", _rollback), ("tick", _tick)):
        for cold in (False, True):
            progress(f"{name}, {'cold' if cold else 'warm'}")
            small, large = (_spent(places[size], act, cold=cold) for size in (SHORT, LONG))
            results += _compared(
                f"{name}, {'cold' if cold else 'warm'} cache", small, large, cold=cold
            )
    return results


def _reruns(place: Path) -> Iterator[Result]:
    """Measure what re-runs with equal content leave, after a collection."""
    progress(f"{HOURS} hours of {FILES:,} files, {RERUNS} times")
    lake, repo = new_repository(place, "bench")
    now = timedelta(0)

    def hours() -> None:
        for hour in range(HOURS):
            with repo.run(f"hour {hour}") as run, run.step("work") as step:
                step.put_many(
                    (f"out/{hour:02}/part-{number:05}", b"%d %d" % (hour, number))
                    for number in range(FILES)
                )

    def stored() -> tuple[int, int, set[str]]:
        repo.gc.sweep(repo.gc.mark(grace=now, window=now).id)
        found = list(repo.stores.objects.list())
        tables = {info.key for info in found if info.key.startswith("_graveler/")}
        return sum(info.size for info in found), len(found), tables

    with lake:
        hours()
        repo.gc.keep(count=1)
        size, count, tables = stored()
        for _ in range(RERUNS):
            hours()
        more_size, more_count, more_tables = stored()
    what = f"{RERUNS} re-runs of {HOURS} hours of {FILES:,} files with equal content"
    details = f"{more_size:,} and {size:,} bytes, {more_count:,} and {count:,} objects"
    yield at_most(
        f"{what}: bytes after a collection", more_size / size, 1.02, "those before", details
    )
    yield at_most(f"{what}: objects", more_count / count, 1.02, "those before", details)
    kept = sum(1 for key in more_tables - tables if not key.startswith("_graveler/gc"))
    yield Result(f"{what}: tables that main has now and not before", f"{kept}", "0", kept == 0)


def _compared(
    name: str, small: tuple[int, float], large: tuple[int, float], *, cold: bool
) -> Iterator[Result]:
    limit = COLD if cold else WARM
    what, few = f"above {LONG:,} commits", f"that above {SHORT}"
    details = f"{large[0]} and {small[0]} calls, {ms(large[1])} and {ms(small[1])}"
    yield at_most(f"{name}, {what}: calls to the stores", large[0] / small[0], limit, few, details)
    yield at_most(f"{name}, {what}: time", large[1] / small[1], limit, few, details)


def _spent(place: Path, act: Act, *, cold: bool) -> tuple[int, float]:
    """Return the calls and the median seconds of an act on copies of a lake."""
    calls, seconds = 0, []
    for turn in range(_TURNS):
        copy = place.with_name("copy")
        shutil.copytree(place, copy)
        process = Process()
        with watched_lake(copy, process) as lake:
            repo = lake.repository("bench")
            if not cold:
                list(islice(repo.log("main"), SHORT))
                list(repo.ref("main").list("out/"))
                repo.runs.plan_rollback(KEY)
                repo.ingestion().status()
            else:
                shutil.rmtree(copy / "cache", ignore_errors=True)
            process.calls.clear()
            start = time.perf_counter()
            act(repo, turn)
            seconds.append(time.perf_counter() - start)
            calls = len(process.calls)
        shutil.rmtree(copy)
    return calls, sorted(seconds)[len(seconds) // 2]


def _retry(repo: Repository, turn: int) -> None:
    with repo.run(KEY) as run, run.step("work") as step:
        step.put("out/05/part-0", b"corrected %d" % turn)


def _rollback(repo: Repository, _turn: int) -> None:
    repo.runs.rollback(KEY)


def _tick(repo: Repository, _turn: int) -> None:
    ingestion = repo.ingestion()
    ingestion.branch.put("input/2013/01/02/05:00/f", b"1")
    assert ingestion.tick("2013-01-02T05:00Z").published is not None


def _publish(repo: Repository) -> Commit:
    with repo.run(KEY) as run, run.step("work") as step:
        step.put("out/05/part-0", b"1")
    assert run.result is not None
    return run.result.commit


def _fill(place: Path, size: int) -> None:
    """Fill a lake: a publish, its revert reverted, a merge, and commits that change nothing."""
    lake, repo = new_repository(place, "bench")
    with lake:
        repo.ingestion().branch.put("input/2013/01/01/05:00/f", b"1")
        repo.ingestion().tick("2013-01-01T05:00Z")
        published = _publish(repo)
        repo.revert(repo.revert(published, parent=1))
        repo.create_branch("pr")
        repo.branch("pr").put("other", b"1")
        repo.branch("pr").commit("other")
        repo.merge("pr", into="main")
        last = _publish(repo)
        refs = repo.stores.refs
        for chunk in batches(_more(last, size), 1_000):
            refs.commits.add_all(chunk)
            last = chunk[-1]
        record, predicate = refs.branches.get_for_update("main")
        refs.branches.replace(replace(record, commit_id=last.id), predicate, action="commit")


def _more(last: Commit, size: int) -> Iterator[Commit]:
    """Yield commits on top of one, with its trees; every tenth is a publish of the run."""
    plain = {name: text for name, text in last.metadata.items() if name == "graveler.claims"}
    head = last
    for number in range(size):
        publishes = number % _PUBLISHES == 0
        commit = replace(
            head,
            id="",
            parents=(head.id, last.parents[1]) if publishes else (head.id,),
            generation=head.generation + 1,
            message=f"commit {number}",
            metadata=last.metadata if publishes else plain,
            spans=(),
        )
        head = replace(commit, id=id_of(commit))
        yield head
