"""Rows of packs: of large and of many small hourly commits, and of a tree from lakeFS."""

import time
from collections.abc import Sequence
from importlib import import_module
from itertools import islice
from typing import Any

import graveler
from graveler.lake import Branch, Repository
from graveler.model import RangeInfo
from graveler.objects.registry import open_store
from graveler.testing.world import link_unseen
from tests.bench.measure import Result, clocked, progress, reported
from tests.bench.scale.histories import HOURLY, changes_of, hours_of, nothing
from tests.bench.scale.place import Place, entry_of, ranges_of
from tests.harness.lakefs import LakefsWriter, Obj, Records

_TABLES = 100
_FILES = 8
_TABLE_HOURS = 120
_MIB = 1 << 20
_MIB_A_SECOND = 900 / 8
"""Rate of one connection to S3, as measured by lakeFS's authors."""


def pack(place: Place) -> list[Result]:
    """Pack the trees of hourly commits of graveler and of lakeFS."""
    return [*_month(place), *_small_tables(place), *_imported(place)]


def _month(place: Place) -> list[Result]:
    """Commit all entries hour by hour into an empty branch, and pack it."""
    files = -(-place.entries // place.hours)
    progress(f"{place.hours} hours of {files:,} files, from an empty branch")
    making = staging = committing = 0.0
    with graveler.init(place.scratch / "month") as lake:
        repo = lake.create_repository("bench")
        main = repo.branch("main")
        for first in range(0, place.entries, files):
            began = time.perf_counter()
            stop = min(place.entries, first + files)
            hour = [entry_of(number, per_hour=files) for number in range(first, stop)]
            made = time.perf_counter()
            link_unseen(main, hour)
            staged = time.perf_counter()
            main.commit("an hour")
            making += made - began
            staging += staged - made
            committing += time.perf_counter() - staged
        what = f"{place.hours} hourly commits of {files:,} files"
        packed = _packed(place, repo, main, what, "pack-month")
    count = place.entries
    return [
        reported(
            what,
            f"{making + staging + committing:,.0f} s",
            f"per entry: {making / count * 1e6:.1f} µs to make it up, {staging / count * 1e6:.1f} to "
            f"stage it, {committing / count * 1e6:.1f} to commit it",
        ),
        *packed,
    ]


def _small_tables(place: Place) -> list[Result]:
    """Commit few files to each of many tables hour by hour, and pack the branch."""
    hours = min(place.hours, _TABLE_HOURS)
    progress(f"{hours} hours of {_FILES} files in each of {_TABLES} tables, from an empty branch")
    with graveler.init(place.scratch / "tables") as lake:
        repo = lake.create_repository("bench")
        main = repo.branch("main")
        for hour in range(hours):
            numbers = range(hour * _FILES, (hour + 1) * _FILES)
            roots = (f"input/table-{table:02d}" for table in range(_TABLES))
            link_unseen(main, [entry_of(at, root, _FILES) for root in roots for at in numbers])
            main.commit("an hour")
        what = f"{hours} hourly commits of {_FILES} files to each of {_TABLES} tables"
        return _packed(place, repo, main, what, "pack-tables")


def _imported(place: Place) -> list[Result]:
    """Import the tree of hourly commits of few files in lakeFS, and pack it."""
    progress(f"{place.hours} hours of {HOURLY} files by lakeFS's rule, and their import")
    simulation = import_module("graveler.simulation.replay")
    hours = [changes_of(hour) for hour in hours_of(place.hours)]
    history = import_module("graveler.simulation.history").History(
        "bench", "", nothing, lambda: hours
    )
    cut = simulation.replay(history, simulation.BASELINE)
    source = place.scratch / "lakefs"
    lakefs = _LakefsWriter(open_store(source.as_uri()).put)
    lakefs.counts = [info.count for info in cut.ranges]
    tree = {
        entry.path: Obj(
            entry.address, entry.size, (entry.checksum or "").removeprefix("sha256:")[:32]
        )
        for hour in hours_of(place.hours)
        for entry in hour
    }
    lakefs.branches["main"] = lakefs.commit(tree, message="an hour")
    lakefs.dump()
    with graveler.init(place.scratch / "imported") as lake:
        lake.import_lakefs(source.as_uri(), "bench", allow=[source.as_uri()])
        repo = lake.repository("bench")
        what = f"a tree from lakeFS, {place.hours} hourly commits of {HOURLY} files"
        return _packed(place, repo, repo.branch("main"), what, "pack-imported")


class _LakefsWriter(LakefsWriter):
    """Cuts the ranges of a tree at given places.

    Attributes:
        counts: Number of records of each range.
    """

    counts: Sequence[int] = ()

    def metarange(self, records: Records, extra: Any = {}) -> str:  # noqa: B006 - as the base has it
        """Put the ranges of some records, and their metarange; return its id."""
        if len(records) != sum(self.counts):
            return super().metarange(records, extra)
        left = iter(records)
        rows = [self._range(list(islice(left, count))) for count in self.counts]
        return self.file(rows, {"type": "metaranges", **extra})


def _packed(
    place: Place, repository: Repository, branch: Branch, what: str, name: str
) -> list[Result]:
    """Pack a branch and return its figures before and after."""
    progress("a pack")
    repo: Any = repository
    head, stats, infos = branch.head.id, repo.stats(branch.name), ranges_of(branch)
    seconds = clocked(lambda: repo.pack(branch))
    after, packed = repo.stats(branch.name), ranges_of(branch)
    differing = sum(1 for _ in repo.diff(head, branch.name))
    known = {info.id for info in infos}
    written = sum(info.size for info in packed if info.id not in known)
    place.plot(
        name,
        f"{what}, and a pack",
        ("range, by size", "MiB"),
        {"before the pack": _sizes(infos), "after the pack": _sizes(packed)},
    )
    return [
        Result(f"a pack of {what}: paths that it changes", f"{differing}", "none", differing == 0),
        reported(
            f"ranges before and after a pack of {what}",
            f"{len(infos):,} and {len(packed):,}",
            f"below 1 MiB {_small(infos):,} and {_small(packed):,}; fragments {stats.fragments:,} and "
            f"{after.fragments:,}; badly cut {stats.badly_cut:,} and {after.badly_cut:,}; median "
            f"{stats.median / _MIB:.2f} and {after.median / _MIB:.2f} MiB",
        ),
        reported(
            f"cost of a cold listing on S3 before and after a pack of {what}",
            f"{_cost(infos):,.0f} and {_cost(packed):,.0f} MiB",
            f"a request as much as 4 MiB, an object at least as much as 512 KiB; one connection of 900 "
            f"Mib/s takes {_cost(infos) / _MIB_A_SECOND:,.1f} and {_cost(packed) / _MIB_A_SECOND:,.1f} s",
        ),
        reported(
            f"bytes that a pack of {what} writes",
            f"{written / _MIB:,.1f} MiB",
            f"of {after.bytes / _MIB:,.1f} MiB, logical, in {seconds:.2f} s",
        ),
    ]


def _sizes(infos: Sequence[RangeInfo]) -> list[float]:
    return sorted(info.size / _MIB for info in infos)


def _small(infos: Sequence[RangeInfo]) -> int:
    return sum(info.size < _MIB for info in infos)


def _cost(infos: Sequence[RangeInfo]) -> float:
    cost: float = import_module("graveler.simulation.figures").cost_of(info.size for info in infos)
    return cost
