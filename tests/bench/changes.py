"""The cost of small changes to a large tree and of a month of hourly commits.

Trees are split as by default. A change writes the range that holds its path, whatever the size of the
tree. Ranges differ in length: the changes are at random paths, in trees of several ranges.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from graveler.committed import StoreStats
from graveler.committed.metarange import read
from graveler.lake import Repository
from graveler.model import Entry
from graveler.reads.changes import range_reuse
from graveler.testing.world import link_unseen
from tests.bench.lakes import START, entries, hour_entries, new_repository
from tests.bench.measure import Result, at_most, ms, progress, timed

SMALL: Final = 200_000
LARGE: Final = 1_000_000
CHANGES: Final = 61
# The same files are read and written in both trees. The metarange is longer in the large one, and
# 1.49 was its greatest ratio; a cost in proportion to the size gives 5.
LIMIT: Final = 2.0
HOURS: Final = 30 * 24
PER_HOUR: Final = 2_000
BEHIND: Final = 400_000

_versions = count(1)


@contextmanager
def _filled(folder: Path, name: str, size: int) -> Iterator[Repository]:
    progress(f"a repository of {size:,} entries")
    lake, repo = new_repository(folder / name, "bench")
    main = repo.branch("main")
    link_unseen(main, entries("input", size))
    main.commit(f"{size} entries")
    with lake:
        yield repo


def _read(stats: StoreStats) -> int:
    return stats.ranges_read + stats.metaranges_read


def _written(stats: StoreStats) -> int:
    return stats.ranges_written + stats.metaranges_written


def _change(repo: Repository, path: str) -> None:
    main = repo.branch("main")
    link_unseen(main, [_other(main.stat(path))])


def _other(entry: Entry) -> Entry:
    return replace(entry, size=entry.size + next(_versions))


def changes(folder: Path) -> list[Result]:
    """Measure one change into a small and a large tree, and a diff of a hundred changes."""
    with (
        _filled(folder, "small", SMALL) as small,
        _filled(folder, "large", LARGE) as large,
    ):
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
            for repo in (small, large):
                seconds[repo].append(timed(lambda: commit(repo)))  # noqa: B023 - called now
        medians = {repo: median(times) for repo, times in seconds.items()}
        return [
            Result(
                "commit of one change into 1,000,000 entries",
                f"{costs[large][0]} metadata files read, {costs[large][1]} written",
                "2 and 2",
                costs[large] == [2, 2],
            ),
            at_most(
                "seconds of the same commit",
                medians[large] / medians[small],
                LIMIT,
                f"those of a commit into {SMALL:,} entries",
                f"{ms(medians[large])} and {ms(medians[small])}, medians of {CHANGES} at random paths",
            ),
            _diff(large),
        ]


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
    count = sum(1 for _ in repo.diff("main~1", "main"))
    opened = stats.ranges_read - before
    return Result(
        "diff of 100 paths in 1,000,000",
        f"{opened} range files opened for {count} changes",
        f"{2 * written}: the changed ranges of both sides, of {2 * (written + reused)}",
        count == 100 and opened == 2 * written,
    )


def hours(folder: Path) -> list[Result]:
    """Commit 720 hours of 2,000 entries below ``input/``, with a large ``output/`` after it."""
    progress(f"{HOURS} hours of {PER_HOUR} entries (some minutes)")
    lake, repo = new_repository(folder / "hours", "bench")
    with lake:
        main = repo.branch("main")
        link_unseen(main, entries("output", BEHIND))
        main.commit("earlier output")
        worst_reuse, most_written, above_two, by_merge = 1.0, 0, 0, 0
        stats = repo.stores.ranges.stats
        repo.create_branch("ingest")
        ingest = repo.branch("ingest")
        for number in range(HOURS):
            base = {info.id for info in read(repo.stores.ranges, ingest.head.metarange)}
            hour = START + timedelta(hours=number)
            link_unseen(ingest, hour_entries("input", hour, PER_HOUR))
            before = stats.ranges_written
            commit = ingest.commit(f"hour {number}")
            most_written = max(most_written, stats.ranges_written - before)
            above_two += stats.ranges_written - before > 2
            now = {info.id for info in read(repo.stores.ranges, commit.metarange)}
            worst_reuse = min(worst_reuse, len(base & now) / len(base))
            before = stats.ranges_written
            merged = repo.merge("ingest", into="main").commit
            by_merge += stats.ranges_written - before
            if merged.metarange != commit.metarange:
                by_merge += 1
    return [
        Result(
            "720 hourly commits: ranges of the base that each reuses",
            f"{worst_reuse:.1%} in the worst case",
            "at least 99 %",
            worst_reuse >= 0.99,
        ),
        Result(
            "ranges that each of them writes",
            f"{most_written} at most",
            "at most 2",
            most_written <= 2,
            f"{above_two} of {HOURS} wrote more: where two breaks by hash fall into one hour, "
            "as the rule has it once in some 1,300 hours of this size",
        ),
        Result(
            "ranges written by its merge into a main that has not moved",
            f"{by_merge}",
            "none",
            by_merge == 0,
        ),
    ]
