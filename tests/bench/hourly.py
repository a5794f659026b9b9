"""Thirty days of hourly commits: how much of the tree each one writes again."""

from datetime import timedelta
from pathlib import Path

from graveler.committed import Splitting
from graveler.committed.metarange import read
from graveler.testing.world import link_unseen
from tests.bench.lakes import START, entries, hour_entries, new_repository
from tests.bench.measure import Result, progress

HOURS = 30 * 24
PER_HOUR = 2_000
BEHIND = 400_000


def hourly(folder: Path) -> list[Result]:
    """Commit 720 hours of 2,000 entries below ``input/``, a large ``output/`` behind it."""
    progress(f"{HOURS} hours of {PER_HOUR} entries (some minutes)")
    lake, repo = new_repository(folder / "hourly", "bench", Splitting())
    with lake:
        main = repo.branch("main")
        link_unseen(main, entries("output", BEHIND))
        main.commit("output of the past")
        worst_reuse, most_written, thrice, by_merge = 1.0, 0, 0, 0
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
            thrice += stats.ranges_written - before > 2
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
            f"at the worst {worst_reuse:.1%}",
            "at least 99 %",
            worst_reuse >= 0.99,
        ),
        Result(
            "ranges that each of them writes",
            f"at the most {most_written}",
            "at most 2",
            most_written <= 2,
            f"{thrice} of {HOURS} wrote more: where two breaks by hash fall into one hour, "
            "as the rule has it once in some 1,300 hours of this size",
        ),
        Result(
            "ranges written by its merge into a main that has not moved",
            f"{by_merge}",
            "none",
            by_merge == 0,
        ),
    ]
