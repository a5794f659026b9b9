"""Rows of histories: the writes of hourly commits compared with lakeFS's rule, and the cut of trees."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from operator import truediv
from typing import Any

import graveler
from graveler.base.names import path_key
from graveler.committed.apply import StagedChange
from graveler.lake import Branch, Repository
from graveler.model import Entry
from graveler.testing.world import link_unseen
from graveler.values import stage_entry, staged_changes
from tests.bench.measure import Result, progress
from tests.bench.scale.place import Place, entry_of, ranges_of, throwaway
from tests.bench.scale.table import at_least, at_most

HOURLY = 40
TABLES = 20
_MIB = 1 << 20
_SHARES = (0.05, 0.20)


def hourly(place: Place) -> list[Result]:
    """Commit 40 files an hour, from an empty branch and on the large lake."""
    with graveler.init(place.scratch / "hourly") as lake:
        repo = lake.create_repository("bench")
        progress(f"{place.hours} hours of {HOURLY} files, from an empty branch")
        written, reused, sizes, ranges = _append(repo, repo.branch("main"), place.hours)
        policy = repo.stores.splitting
    _, theirs = _replayed(policy, lambda: map(changes_of, hours_of(place.hours)))
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
    for hour in hours_of(hours):
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


def hours_of(count: int, roots: Sequence[str] = ("input-new",)) -> Iterator[list[Entry]]:
    """Yield the files of hour after hour, in each of the folders."""
    for hour in range(count):
        numbers = range(hour * HOURLY, (hour + 1) * HOURLY)
        yield [entry_of(number, root, HOURLY) for root in roots for number in numbers]


def changes_of(entries: Iterable[Entry]) -> list[StagedChange]:
    """Return the changes that put entries, in key order."""
    staged = [(key := path_key(entry.path), stage_entry(key, entry)) for entry in entries]
    return list(staged_changes(sorted(staged)))


def nothing() -> Iterator[StagedChange]:
    """Return the empty tree."""
    return iter(())


def _replayed(
    policy: Any, commits: Callable[[], Iterable[list[StagedChange]]]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the steps of a history from an empty tree, under a policy and under lakeFS's rule."""
    simulation = import_module("graveler.simulation.replay")
    history = import_module("graveler.simulation.history").History("bench", "", nothing, commits)
    policies = (simulation.Policy("graveler", policy), simulation.BASELINE)
    ours, theirs = (simulation.replay(history, each) for each in policies)
    return ours.steps, theirs.steps


def tables(place: Place) -> list[Result]:
    """Append to 20 tables hour by hour, under both rules."""
    progress(f"{place.hours} hours of {HOURLY} files in each of {TABLES} tables")
    roots = [f"input/table-{number:02d}" for number in range(TABLES)]
    commits = list(map(changes_of, hours_of(place.hours, roots)))
    ours, theirs = _replayed(_policy(place), lambda: commits)
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
