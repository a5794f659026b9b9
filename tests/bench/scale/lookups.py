"""Rows of single lookups: many at once, one at a time, in a new process, in a new range."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import graveler
from graveler.config import load_config
from graveler.lake.factory import connect
from tests.bench.measure import Result, ms, progress, reported
from tests.bench.scale.children import Ready, in_child, rate
from tests.bench.scale.place import REPOSITORY, Place, path_of, ranges_of, touch
from tests.bench.scale.table import at_least, at_most

BATCH = 100_000
READS = 3_000
FIRST_TOUCHES = 30


def stat_many(place: Place) -> list[Result]:
    """Two processes read batches of uniform random paths from the ranges of a warm lake."""
    seconds = place.seconds
    progress("stat_many, two processes")
    rates = {
        read: median(
            rate(_many, _loaded(place), place.entries, seconds, repeat, read)
            for repeat in range(repeats)
        )
        for read, repeats in ((len, place.repeats), (_sizes, 1))
    }
    details = f"batches of {BATCH:,}, median of {place.repeats}"
    name = "`stat_many`, warm, uniform, two processes"
    return [
        at_least(name, rates[len], 1_500_000, "/s", f"{details}; entries are made when read"),
        reported(f"{name}, the size of every entry read", f"{rates[_sizes]:,.0f}/s", "one run"),
    ]


def _sizes(found: Sequence[Any]) -> int:
    return len([entry.size for entry in found])


def _many(
    ready: Ready,
    number: int,
    lake: Path,
    entries: int,
    seconds: float,
    seed: int,
    read: Callable[[Sequence[Any]], int],
) -> int:
    with graveler.open(lake) as opened:
        view: Any = opened.repository(REPOSITORY).ref("main")
        random = Random(seed * 100 + number)
        batches = [_paths(random, entries, min(BATCH, entries)) for _ in range(20)]
        touch(view)
        assert [entry.path for entry in view.stat_many(batches[0])] == batches[0]
        for batch in batches:
            view.stat_many(batch)
        calls = [partial(_count, view.stat_many, batch, read) for batch in batches]
        return _until(ready, seconds, calls)


def _count(
    find: Callable[[list[str]], Sequence[Any]],
    paths: list[str],
    read: Callable[[Sequence[Any]], int],
) -> int:
    return read(find(paths))


def _paths(random: Random, entries: int, count: int) -> list[str]:
    return [path_of(random.randrange(entries)) for _ in range(count)]


def _until(ready: Ready, seconds: float, calls: Sequence[Callable[[], int]]) -> int:
    """Make the calls in turn until the time is over; return their total units."""
    ready()
    ends, done = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        for call in calls:
            done += call()
            if time.monotonic() >= ends:
                break
    return done


def stat(place: Place) -> list[Result]:
    """Two processes read one uniform random path after the other from a pinned commit."""
    seconds = place.seconds
    progress("stat, two processes")
    rates = [
        rate(_single, _loaded(place), place.entries, seconds, repeat)
        for repeat in range(place.repeats)
    ]
    return [
        at_least(
            "`stat` on a pinned commit, warm, uniform, two processes",
            median(rates),
            250_000,
            "/s",
            f"median of {place.repeats}",
        )
    ]


def _single(ready: Ready, number: int, lake: Path, entries: int, seconds: float, seed: int) -> int:
    with graveler.open(lake) as opened:
        view = opened.repository(REPOSITORY).ref("main")
        paths = _paths(Random(seed * 100 + number), entries, 100_000)
        touch(view)
        read = view.stat
        assert read(paths[0]).path == paths[0]

        def some(start: int) -> int:
            for path in paths[start : start + 100]:
                read(path)
            return 100

        return _until(ready, seconds, [partial(some, at) for at in range(0, len(paths), 100)])


def new_process(place: Place) -> list[Result]:
    """A process that has opened the lake reads its first 3,000 random paths."""
    lake = place.lake()
    in_child(_touched, lake)  # the flat files exist and are in the page cache
    progress("the first reads of a process")
    rates = [
        in_child(_first_reads, _loaded(place), place.entries, seed) for seed in range(place.repeats)
    ]
    return [
        at_least(
            "random `stat` in a new process, flat files on disk and in the page cache",
            median(rates),
            20_000,
            "/s",
            f"the first {READS:,} reads, median of {place.repeats} processes",
        )
    ]


def _loaded(place: Place) -> Path:
    """Read the local forms into the page cache, from which a system may remove what it finds idle."""
    lake = place.lake()
    for path in (lake / "cache").glob("*.flat"):
        path.read_bytes()
    return lake


def _touched(lake: Path) -> None:
    with graveler.open(lake) as opened:
        touch(opened.repository(REPOSITORY).ref("main"))


def _first_reads(lake: Path, entries: int, seed: int) -> float:
    with graveler.open(lake) as opened:
        view = opened.repository(REPOSITORY).ref("main")
        paths = _paths(Random(seed), entries, READS)
        began = time.perf_counter()
        for path in paths:
            view.stat(path)
        return READS / (time.perf_counter() - began)


def first_touch(place: Place) -> list[Result]:
    """A process with an empty cache reads one entry of some ranges."""
    progress("the first touch of ranges")
    seconds, entries = in_child(_first_touches, place.lake(), place.scratch / "cache")
    return [
        at_most(
            "first touch of a range that has no flat form yet",
            seconds * 1e6,
            1.5,
            " µs an entry",
            f"median of {FIRST_TOUCHES} ranges, {entries:,.0f} entries on average; the range is "
            "fetched from the page cache, verified and written to the cache",
        )
    ]


def _first_touches(lake: Path, cache: Path) -> tuple[float, float]:
    with connect(replace(load_config(lake), cache_folder=cache)) as opened:
        repo = opened.repository(REPOSITORY)
        view, store = repo.ref("main"), repo.stores.ranges
        ranges = ranges_of(view)
        chosen = list(ranges)[:: max(1, len(ranges) // FIRST_TOUCHES)]
        costs = []
        for info in chosen:
            store.objects.get(store.key(info.id))  # its file is in the page cache
            path = info.min_key.decode()
            began = time.perf_counter()
            view.stat(path)
            costs.append((time.perf_counter() - began) / info.count)
        return median(costs), sum(info.count for info in chosen) / len(chosen)


_START = """\
import time
began = time.perf_counter()
import graveler
imported = time.perf_counter()
lake = graveler.open({lake!r})
lake.repository({name!r}).ref("main").stat({path!r})
print(imported - began, time.perf_counter() - began)
"""


def start(place: Place) -> list[Result]:
    """A new process imports graveler, opens the lake and reads one entry."""
    lake = place.lake()
    in_child(_touched, lake)
    progress("starts of processes")
    random, found, whole = Random(5), [], []
    for _ in range(3 * place.repeats):
        path = path_of(random.randrange(place.entries))
        program = _START.format(lake=str(lake), name=REPOSITORY, path=path)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            # modules are compiled once, as for a user, whatever the environment of this process says
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )
        whole.append(time.perf_counter() - began)
        found.append(tuple(map(float, done.stdout.split())))
    return [
        at_most(
            "`import graveler`, open, first `stat`, new process",
            median(each[1] for each in found) * 1e3,
            150,
            " ms",
            f"the import alone {ms(median(each[0] for each in found))}, the process with its "
            f"interpreter {ms(median(whole))}; medians of {len(whole)}",
        )
    ]
