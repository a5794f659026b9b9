"""Rows of histories: what hourly commits write, beside lakeFS's rule, and how trees are cut."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from operator import truediv
from random import Random
from typing import Any, Final

import graveler
from graveler.committed import StagedChange
from graveler.lake import Branch, Repository
from graveler.model import Entry, RangeInfo
from graveler.names import path_key
from graveler.testing.world import link_unseen
from graveler.values import stage_entry, staged_changes
from tests.bench.measure import Result, clocked, progress, reported
from tests.bench.scale.place import PER_HOUR, Place, changed, entry_of, ranges_of, throwaway
from tests.bench.scale.table import at_least, at_most

HOURLY: Final = 40
TABLES: Final = 20
_MIB: Final = 1 << 20
_SHARES: Final = (0.05, 0.20)


def hourly(place: Place) -> list[Result]:
    """Commit 40 files an hour, from an empty branch and on the large lake."""
    with graveler.init(place.scratch / "hourly") as lake:
        repo = lake.create_repository("bench")
        progress(f"{place.hours} hours of {HOURLY} files, from an empty branch")
        written, reused, sizes, ranges = _append(repo, repo.branch("main"), place.hours)
        policy = repo.stores.splitting
    _, theirs = _replayed(policy, nothing, lambda: map(_changes, _hours(place.hours)))
    with place.repository() as large, throwaway(large) as branch:
        progress(f"{place.hours} hours of {HOURLY} files, on {place.entries:,} entries")
        _, reused_there, sizes_there, _ = _append(large, branch, place.hours)
    place.plot(
        "hourly",
        f"{HOURLY} files an hour, from an empty branch",
        ("commit", "ranges of the tree"),
        {"graveler": ranges, "lakeFS's rule": [step.ranges for step in theirs]},
    )
    above = sum(count > 2 for count in written)
    return [
        at_most(
            f"{HOURLY} files an hour for {place.hours} hours, from an empty branch: ranges that a "
            "commit writes",
            max(written),
            2,
            "",
            f"{sum(written) / len(written):.2f} on average; {above} commits write more than 2",
        ),
        at_most(
            "ranges at the end of the same, over lakeFS's rule",
            ranges[-1] / theirs[-1].ranges,
            1 / 20,
            "",
            f"{ranges[-1]} and {theirs[-1].ranges}",
        ),
        at_least(
            "bytes that these commits reuse, of those of all their trees",
            100 * sum(reused) / sum(sizes),
            95,
            " %",
            f"{100 * sum(reused[-24:]) / sum(sizes[-24:]):.1f} % in the last day",
        ),
        at_least(
            f"bytes that they reuse on a base of {place.entries:,} entries",
            100 * sum(reused_there) / sum(sizes_there),
            99,
            " %",
            f"{100 * min(map(truediv, reused_there, sizes_there)):.2f} % by the commit that reuses least",
        ),
    ]


def _append(
    repo: Repository, branch: Branch, hours: int
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Commit hour by hour.

    Returns:
        For each commit: ranges written, bytes reused, bytes of the tree, ranges of the tree.
    """
    written, reused, sizes, ranges = [], [], [], []
    before = {info.id for info in ranges_of(branch)}
    for hour in _hours(hours):
        link_unseen(branch, hour)
        branch.commit("an hour")
        tree = ranges_of(branch)
        new = [info.size for info in tree if info.id not in before]
        written.append(len(new))
        sizes.append(sum(info.size for info in tree))
        reused.append(sizes[-1] - sum(new))
        ranges.append(len(tree))
        before = {info.id for info in tree}
    return written, reused, sizes, ranges


def _hours(count: int, roots: Sequence[str] = ("input-new",)) -> Iterator[list[Entry]]:
    """Yield the files of hour after hour, in each of the folders."""
    for hour in range(count):
        numbers = range(hour * HOURLY, (hour + 1) * HOURLY)
        yield [entry_of(number, root, HOURLY) for root in roots for number in numbers]


def _changes(entries: Iterable[Entry]) -> list[StagedChange]:
    staged = [(key := path_key(entry.path), stage_entry(key, entry)) for entry in entries]
    return list(staged_changes(sorted(staged)))


def nothing() -> Iterator[StagedChange]:
    """Return the empty tree."""
    return iter(())


def _replayed(
    policy: Any,
    base: Callable[[], Iterable[StagedChange]],
    commits: Callable[[], Iterable[list[StagedChange]]],
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the steps of a history under a policy and under lakeFS's rule."""
    ours, theirs = _replays(policy, base, commits)
    return ours.steps, theirs.steps


def _replays(
    policy: Any,
    base: Callable[[], Iterable[StagedChange]],
    commits: Callable[[], Iterable[list[StagedChange]]],
) -> list[Any]:
    simulation = import_module("graveler.simulation")
    history = simulation.History("bench", "", base, commits)
    policies = (simulation.Policy("graveler", policy), simulation.BASELINE)
    return [simulation.replay(history, each) for each in policies]


def tables(place: Place) -> list[Result]:
    """Append to 20 tables hour by hour, under both rules."""
    progress(f"{place.hours} hours of {HOURLY} files in each of {TABLES} tables")
    roots = [f"input/table-{number:02d}" for number in range(TABLES)]
    ours, theirs = _replayed(
        _policy(place), nothing, lambda: map(_changes, _hours(place.hours, roots))
    )
    bytes_ours, bytes_theirs = (sum(sum(step.written) for step in each) for each in (ours, theirs))
    place.plot(
        "tables",
        f"{TABLES} tables, {HOURLY} files an hour in each",
        ("commit", "MiB written so far"),
        {"graveler": _so_far(ours), "lakeFS's rule": _so_far(theirs)},
    )
    return [
        at_most(
            f"{TABLES} tables appended hourly for {place.hours} hours: bytes written over lakeFS's "
            "rule",
            bytes_ours / bytes_theirs,
            1 / 15,
            "",
            f"{bytes_ours / _MIB:,.0f} MiB and {bytes_theirs / _MIB:,.0f} MiB, logical",
        )
    ]


def _so_far(steps: Sequence[Any]) -> list[float]:
    total, found = 0.0, []
    for step in steps:
        total += sum(step.written) / _MIB
        found.append(total)
    return found


def _policy(place: Place) -> Any:
    with place.repository(place.small) as repo:
        return repo.stores.splitting


def seeds(place: Place) -> list[Result]:
    """Cut a tree, and change a part of its folders a day; both rules beside each other."""
    figures = import_module("graveler.simulation").figures
    size, policy = place.entries // 10, _policy(place)

    def base() -> Iterator[StagedChange]:
        return iter(_changes(map(entry_of, range(size))))

    results: list[Result] = []
    cut: list[Any] = []
    for share in _SHARES:
        progress(f"{share:.0%} of the folders of {size:,} entries change")

        def day(share: float = share) -> list[list[StagedChange]]:
            hours = range(-(-size // PER_HOUR))
            chosen = sorted(Random(4).sample(hours, max(1, int(len(hours) * share))))
            numbers = (hour * PER_HOUR + each for hour in chosen for each in range(PER_HOUR))
            return [_changes(changed(number) for number in numbers if number < size)]

        cut = [figures(replay) for replay in _replays(policy, base, day)]
        ours, theirs = cut
        results.append(
            reported(
                f"bytes reused where {share:.0%} of the folders change in a day",
                f"{ours.bytes_reused:.1%}",
                f"lakeFS's rule {theirs.bytes_reused:.1%}",
            )
        )
    ours, theirs = cut
    return [
        reported(
            "ranges cut before the largest size",
            f"{ours.natural:.0%}",
            f"lakeFS's rule {theirs.natural:.0%} of {theirs.ranges} ranges; its authors expect 65 % "
            "with entries of 400 bytes",
        ),
        reported(
            "bytes in ranges of 1 to 10 MiB",
            f"{ours.well_sized:.0%}",
            f"lakeFS's rule {theirs.well_sized:.0%}",
        ),
        *results,
    ]


def pack(place: Place) -> list[Result]:
    """Append to many tables of the large lake hour by hour, then pack the branch."""
    roots = [f"input-new/table-{number:02d}" for number in range(TABLES)]
    with place.repository() as opened, throwaway(opened) as branch:
        repo: Any = opened
        progress(f"{place.hours} hours of {HOURLY} files in each of {TABLES} tables, and a pack")
        for hour in _hours(place.hours, roots):
            link_unseen(branch, hour)
            branch.commit("an hour")
        before, head = ranges_of(branch), branch.head.id
        seconds = clocked(lambda: repo.pack(branch))
        after = ranges_of(branch)
        differing = sum(1 for _ in opened.diff(head, branch.name))
    ids = {info.id for info in before}
    written = sum(info.size for info in after if info.id not in ids) / _MIB
    return [
        Result(
            f"a pack after {place.hours} hourly commits to {TABLES} tables beside {place.entries:,} "
            "entries: paths that it changes",
            f"{differing}",
            "none",
            differing == 0,
        ),
        reported(
            "ranges before and after the pack",
            f"{len(before):,} and {len(after):,}",
            f"below 1 MiB {_small(before):,} and {_small(after):,}; the pack writes {written:,.0f} MiB "
            f"of {sum(info.size for info in after) / _MIB:,.0f} MiB in {seconds:.1f} s",
        ),
        reported(
            "cost of a cold listing on S3 before and after the pack",
            f"{_listing(before):,.0f} and {_listing(after):,.0f} MiB",
            "a request costs as much as 4 MiB",
        ),
    ]


def _small(ranges: Sequence[RangeInfo]) -> int:
    return sum(info.size < _MIB for info in ranges)


def _listing(ranges: Sequence[RangeInfo]) -> float:
    return 4 * len(ranges) + sum(info.size for info in ranges) / _MIB
