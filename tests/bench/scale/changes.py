"""Rows of small commits and of diffs."""

from random import Random
from statistics import median

from graveler.committed.ranges.range_store import StoreStats
from graveler.lake import Branch, Repository
from graveler.reads.changes import range_reuse
from graveler.testing.world import link_unseen
from tests.bench.measure import Result, ms, percentile, progress, timed
from tests.bench.scale.place import PER_HOUR, Place, changed, ranges_of, throwaway
from tests.bench.scale.table import at_least, at_most

CHANGES = 100
_MIB = 1 << 20


def _read(stats: StoreStats) -> int:
    return stats.ranges_read + stats.metaranges_read


def _written(stats: StoreStats) -> int:
    return stats.ranges_written + stats.metaranges_written


def commit_one(place: Place) -> list[Result]:
    """Commit one change at a random path, again and again."""
    with place.repository() as repo, throwaway(repo) as branch:
        progress(f"{place.commits} commits of one change")
        ranges = ranges_of(branch)
        average = sum(info.size for info in ranges) / len(ranges) / _MIB
        random, stats = Random(1), repo.stores.ranges.stats
        seconds: list[float] = []
        files: list[tuple[int, int]] = []
        for _ in range(place.commits):
            number = random.randrange(place.entries)
            branch.stat(changed(number).path)  # its range is warm
            link_unseen(branch, [changed(number)])
            before = _read(stats), _written(stats)
            seconds.append(timed(lambda: branch.commit("one change")))
            files.append((_read(stats) - before[0], _written(stats) - before[1]))
        most = max(files)
        return [
            at_most(
                "commit of one change",
                median(seconds) * 1e3,
                40,
                " ms",
                f"median of {place.commits}, 90 % within {ms(percentile(seconds, 0.9))}",
            ),
            Result(
                "files of the same commit",
                f"{most[0]} read, {most[1]} written",
                "at most 2 and 2",
                most[0] <= 2 and most[1] <= 2,
                f"the most of {place.commits} commits",
            ),
            at_least(
                "ranges of the same lake, logical bytes on average",
                average,
                1 if place.entries >= 1_000_000 else 0,
                " MiB",
                f"{len(ranges):,} ranges",
            ),
        ]


def commit_hundred(place: Place) -> list[Result]:
    """Commit 100 changes under one prefix, in the large lake and in the small one in turns."""
    with (
        place.repository() as large,
        place.repository(place.small) as small,
        throwaway(large) as in_large,
        throwaway(small) as in_small,
    ):
        progress(f"{place.commits} commits of {CHANGES} changes under one prefix, in turns")
        random = Random(2)
        seconds: dict[int, list[float]] = {place.entries: [], place.small: []}
        for _ in range(place.commits):
            for size, branch in ((place.entries, in_large), (place.small, in_small)):
                first = random.randrange(size // PER_HOUR) * PER_HOUR
                changes = [changed(first + each) for each in range(CHANGES)]
                branch.stat(changes[0].path)
                link_unseen(branch, changes)
                seconds[size].append(timed(lambda: branch.commit("changes")))  # noqa: B023 - now
        in_turns = [median(times) for times in seconds.values()]
        return [
            at_most(
                f"commit of {CHANGES} changes under one prefix, {place.entries:,} entries over "
                f"{place.small:,}",
                in_turns[0] / in_turns[1],
                1.3,
                "",
                f"{ms(in_turns[0])} and {ms(in_turns[1])}, medians of {place.commits}",
            )
        ]


def diff_hundred(place: Place) -> list[Result]:
    """Compare two commits that differ in 100 scattered paths."""
    with place.repository() as repo, throwaway(repo) as branch:
        progress(f"a diff of {CHANGES} scattered paths")
        before = branch.head
        numbers = Random(3).sample(range(place.entries), CHANGES)
        link_unseen(branch, sorted(map(changed, numbers), key=lambda entry: entry.path))
        after = branch.commit("scattered changes")
        written, reused = range_reuse(repo.stores, after)
        assert _diff(repo, branch, before.id) == CHANGES
        stats = repo.stores.ranges.stats
        opened = stats.ranges_read
        seconds = [timed(lambda: _diff(repo, branch, before.id)) for _ in range(place.repeats)]
        opened = (stats.ranges_read - opened) // place.repeats
        return [
            at_most(
                f"diff of {CHANGES} scattered paths, warm",
                median(seconds) * 1e3,
                150,
                " ms",
                f"median of {place.repeats}",
            ),
            Result(
                "ranges that the same diff opens",
                f"{opened}",
                f"at most {2 * written}",
                opened <= 2 * written,
                f"those of both sides that differ; {reused:,} are equal",
            ),
        ]


def _diff(repo: Repository, branch: Branch, before: str) -> int:
    return sum(1 for _ in repo.diff(before, branch.name))
