"""The lakes that rows measure, built once with default settings."""

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import graveler
from graveler.committed.metarange import read
from graveler.lake import Branch, Ref, Repository
from graveler.model import Entry, RangeInfo
from graveler.testing.world import link_unseen
from tests.bench.lakes import START
from tests.bench.measure import progress
from tests.bench.scale.children import in_child
from tests.bench.scale.plots import Plot

PER_HOUR = 400
REPOSITORY = "flights"
_PER_COMMIT = 1_000_000


@lru_cache(maxsize=1 << 10)
def _hour(root: str, hour: int) -> tuple[str, str]:
    """Return the folder of an hour, and the id of the job that wrote it."""
    folder = f"{root}/{START + timedelta(hours=hour):%Y/%m/%d/%H:%M}"
    return folder, str(UUID(bytes=blake2b(folder.encode(), digest_size=16).digest(), version=4))


def path_of(number: int, root: str = "input", per_hour: int = PER_HOUR) -> str:
    """Return the path of an entry; the order of the paths is that of the numbers."""
    hour, part = divmod(number, per_hour)
    folder, job = _hour(root, hour)
    return f"{folder}/part-{part:05d}-{job}-c000.snappy.parquet"


def entry_of(number: int, root: str = "input", per_hour: int = PER_HOUR) -> Entry:
    """Return an entry as of a job: no two share an address, a checksum, a size or a time."""
    path = path_of(number, root, per_hour)
    digest = blake2b(path.encode(), digest_size=32).hexdigest()
    hour, part = divmod(number, per_hour)
    return Entry(
        path=path,
        address=f"data/{digest[:32]}/part-00000.snappy.parquet",
        size=1_000_000 + number,
        checksum=f"sha256:{digest}",
        mtime=START + timedelta(hours=hour + 1, seconds=part, microseconds=number % 1_000_000),
        computed=True,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """The lakes and the sizes for the rows.

    Attributes:
        folder: Folder that keeps the lakes from run to run.
        scratch: An empty folder that is removed after the row.
        entries: Number of entries of the large lake.
        seconds: Shortest time to measure a rate.
        hours: Number of hours of the histories that are committed hour by hour.
        repeats: Number of values for a median.
        commits: Number of small commits, and of loops of each contending process.
        processes: Number of processes that contend for one branch.
        rows: Number of rows of a table on Spark.
        files: Number of tiny files of another table on Spark.
        imported: Number of entries of a bulk import on Spark.
        compared: Number of entries of the trees whose difference Spark reads.
        gateway_mib: Size of a file that goes through the gateway, in MiB.
        plots: The plots drawn by the rows so far.
    """

    folder: Path
    scratch: Path
    entries: int = 10_000_000
    seconds: float = 3.0
    hours: int = 720
    repeats: int = 5
    commits: int = 31
    processes: int = 8
    rows: int = 8_000_000
    files: int = 10_000
    imported: int = 5_000_000
    compared: int = 1_000_000
    gateway_mib: int = 1_024
    plots: list[Plot] = field(default_factory=list)

    @property
    def small(self) -> int:
        """Number of entries of the small lake: 100,000 for 10,000,000."""
        return self.entries // 100

    def plot(
        self, name: str, title: str, axes: tuple[str, str], lines: Mapping[str, Sequence[float]]
    ) -> None:
        """Draw lines for the page; see `Plot`."""
        self.plots.append(Plot(name, title, axes, lines))

    def lake(self, size: int | None = None) -> Path:
        """Return the folder of the lake with that many entries, by default the large one."""
        size = size or self.entries
        place = self.folder / f"lake-{size}"
        if not (place / "built.json").exists():
            shutil.rmtree(place, ignore_errors=True)
            progress(f"building a lake of {size:,} entries")
            in_child(_build, place, size)
        return place

    @contextmanager
    def repository(self, size: int | None = None) -> Iterator[Repository]:
        """Open the lake with that many entries."""
        with graveler.open(self.lake(size)) as lake:
            yield lake.repository(REPOSITORY)


def _build(place: Path, size: int) -> None:
    """Stage and commit the entries, a million to a commit."""
    began = time.perf_counter()
    with graveler.init(place) as lake:
        main = lake.create_repository(REPOSITORY).branch("main")
        for start in range(0, size, _PER_COMMIT):
            link_unseen(main, map(entry_of, range(start, min(size, start + _PER_COMMIT))))
            main.commit(f"entries from {start:,}")
    facts = {"entries": size, "seconds": time.perf_counter() - began}
    (place / "built.json").write_text(json.dumps(facts), "utf-8")


@contextmanager
def throwaway(repo: Repository) -> Iterator[Branch]:
    """Yield a branch of main that is deleted at the end, because the lake is used again."""
    branch = repo.create_branch(f"bench-{uuid4().hex}", source="main")
    try:
        yield branch
    finally:
        repo.delete_branch(branch.name)


def changed(number: int) -> Entry:
    """Return another version of an entry."""
    return replace(entry_of(number), size=Random().randrange(1 << 40))


def ranges_of(view: Ref | Branch) -> Sequence[RangeInfo]:
    """Return the ranges of the tree of a view's commit."""
    commit = view.commit if isinstance(view, Ref) else view.head
    assert isinstance(commit, graveler.Commit)
    return read(view.repository.ranges, commit.metarange)


def touch(view: Ref | Branch) -> None:
    """Read one entry of each range."""
    for info in ranges_of(view):
        view.stat(info.max_key.decode())
