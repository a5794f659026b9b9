"""What small changes to a large tree cost, as trees are split by default.

A change writes the range that holds its path, of 50,000 entries on average, whatever the size of the
tree. Ranges differ in length, so that changes at random paths are measured, in trees of several ranges.
"""

from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from statistics import median

from graveler.committed import Splitting, StoreStats
from graveler.lake import Repository
from graveler.model import Entry
from graveler.repository.view import range_reuse
from graveler.testing.world import link_unseen
from tests.bench.lakes import entries, new_repository
from tests.bench.measure import Result, alternate, progress

SMALL, LARGE = 200_000, 1_000_000
CHANGES = 41

_versions = count(1)


def _filled(folder: Path, name: str, size: int) -> tuple[object, Repository]:
    progress(f"a repository of {size:,} entries")
    lake, repo = new_repository(folder / name, "bench", Splitting())
    main = repo.branch("main")
    link_unseen(main, entries("input", size))
    main.commit(f"{size} entries")
    return lake, repo


def _read(stats: StoreStats) -> int:
    return stats.ranges_read + stats.metaranges_read


def _written(stats: StoreStats) -> int:
    return stats.ranges_written + stats.metaranges_written


def _change(repo: Repository, path: str) -> None:
    main = repo.branch("main")
    link_unseen(main, [_other(main.stat(path))])


def _other(entry: Entry) -> Entry:
    return replace(entry, size=entry.size + next(_versions))


def changing(folder: Path) -> list[Result]:
    """Measure one change into a small and a large tree, and a diff of a hundred."""
    (small_lake, small), (large_lake, large) = (
        _filled(folder, "small", SMALL),
        _filled(folder, "large", LARGE),
    )
    random = Random(1)
    paths = {
        repo: random.sample([entry.path for entry in repo.ref("main").list()], CHANGES)
        for repo in (small, large)
    }
    costs: dict[Repository, list[int]] = {}

    def commit(repo: Repository) -> None:
        stats = repo.stores.ranges.stats
        read, written = _read(stats), _written(stats)
        repo.branch("main").commit("one change")
        costs[repo] = [_read(stats) - read, _written(stats) - written]

    progress("one change at a time")
    seconds: dict[Repository, list[float]] = {small: [], large: []}
    for number in range(CHANGES):
        _change(small, paths[small][number])
        _change(large, paths[large][number])
        left, right = alternate(lambda: commit(small), lambda: commit(large), 1)
        seconds[small].append(left)
        seconds[large].append(right)
    medians = {repo: median(times) for repo, times in seconds.items()}
    ratio = medians[large] / medians[small]
    results = [
        Result(
            "commit of one change into 1,000,000 entries",
            f"{costs[large][0]} metadata files read, {costs[large][1]} written",
            "2 and 2",
            costs[large] == [2, 2],
        ),
        Result(
            f"the same, against one into {SMALL:,} entries",
            f"{ratio:.2f} times as long",
            "at most 1.5",
            ratio <= 1.5,
            f"{medians[large] * 1000:.0f} ms against {medians[small] * 1000:.0f} ms, medians of "
            f"{CHANGES} at random paths; the ranges were drawn by the paths' hashes",
        ),
        _diff(large),
    ]
    small_lake.close()  # type: ignore[attr-defined]
    large_lake.close()  # type: ignore[attr-defined]
    return results


def _diff(repo: Repository) -> Result:
    progress("a diff of a hundred paths")
    main = repo.branch("main")
    everything = [entry.path for entry in repo.ref("main").list()]
    link_unseen(
        main,
        (_other(main.stat(path)) for path in everything[5_000 : 5_000 + 100 * 9_000 : 9_000]),
    )
    commit = main.commit("a hundred changes")
    written, reused = range_reuse(repo.stores, commit)
    stats = repo.stores.ranges.stats
    before = stats.ranges_read
    changes = sum(1 for _ in repo.diff("main~1", "main"))
    opened = stats.ranges_read - before
    return Result(
        "diff of 100 paths in 1,000,000",
        f"{opened} range files opened for {changes} changes",
        f"{2 * written}: the changed ranges of both sides, of {2 * (written + reused)}",
        changes == 100 and opened == 2 * written,
    )
