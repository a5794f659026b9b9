"""The latency of single operations on a small repository."""

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from graveler.base.clock import Clock
from graveler.config import load_config
from graveler.kv.store import KVStore, Stored
from graveler.lake import Repository
from graveler.lake.factory import connect
from graveler.testing.world import link_unseen
from tests.bench.lakes import entries, entry, new_repository
from tests.bench.measure import Result, at_most, clocked, ms, percentile, progress, reported

SIZE = 1_000
TIMES = 500
READ_LIMIT = 4.0  # decoding a record may cost three reads of it, a second read may not

_versions = count(1)


def latency(folder: Path) -> list[Result]:
    """Measure a commit of one change, the creation of a branch, and an idle read of a branch."""
    lake, repo = new_repository(folder / "latency", "bench")
    with lake:
        main = repo.branch("main")
        link_unseen(main, entries("input", SIZE))
        main.commit("the first files")
        results = [_commit(repo), _create_branch(repo)]
    return [*results, *_idle_read(folder / "latency")]


def _median_and_p99(seconds: list[float]) -> str:
    return f"median {ms(percentile(seconds, 0.5))}, p99 {ms(percentile(seconds, 0.99))}"


def _commit(repo: Repository) -> Result:
    progress(f"{TIMES} commits of one change")
    main = repo.branch("main")
    seconds = []
    for number in range(TIMES + 20):
        link_unseen(main, [entry(f"input/changing-{number % 50}-{next(_versions)}")])
        seconds.append(clocked(lambda: main.commit("one change")))
    seconds = seconds[20:]
    return reported(
        "commit of one change into a small repository",
        _median_and_p99(seconds),
        f"{TIMES} commits on {SIZE:,} entries",
    )


def _create_branch(repo: Repository) -> Result:
    progress(f"{2 * TIMES} branches")
    numbers = iter(range(2 * TIMES))
    seconds = [
        clocked(lambda: repo.create_branch(f"branch-{next(numbers):04d}")) for _ in range(2 * TIMES)
    ]
    return reported("create branch", _median_and_p99(seconds), f"{2 * TIMES:,} branches")


class _SleeplessClock(Clock):
    """The machine's time; it counts sleeps and does not sleep."""

    def __init__(self) -> None:
        self.sleeps = 0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1


def _counted_reads(kv: KVStore) -> list[str]:
    """Return a list that grows with each read of one key."""
    partitions: list[str] = []
    get = kv.get

    def counted(partition: str, key: bytes) -> Stored | None:
        partitions.append(partition)
        return get(partition, key)

    kv.get = counted  # type: ignore[method-assign]
    return partitions


def _idle_read(folder: Path) -> list[Result]:
    progress("idle reads of a branch")
    clock = _SleeplessClock()
    with connect(load_config(folder), clock=clock) as lake:
        stores = lake.repository("bench").stores
        main = lake.repository("bench").branch("main")
        path = next(iter(main.entries())).path
        partition, key = f"refs:{stores.uid}", b"branch/main"
        counted = _counted_reads(stores.kv)
        stores.refs.branches.get("main")
        reads = len(counted)
        bare, branch, stat = [], [], []
        for _ in range(5_000):  # in turns, so that all three meet the same noise
            bare.append(clocked(lambda: stores.kv.get(partition, key)))
            branch.append(clocked(lambda: stores.refs.branches.get("main")))
            stat.append(clocked(lambda: main.stat(path)))
    reference, read = percentile(bare, 0.5), percentile(branch, 0.5)
    return [
        Result(
            "calls of an idle read of a branch record",
            f"{reads} KV read, {clock.sleeps} sleeps",
            "1 read, no sleep",
            (reads, clock.sleeps) == (1, 0),
        ),
        at_most(
            "idle read of a branch record",
            read / reference,
            READ_LIMIT,
            "a bare KV read",
            f"{read * 1e6:.0f} µs and {reference * 1e6:.0f} µs; "
            f"a whole stat {percentile(stat, 0.5) * 1e6:.0f} µs",
        ),
    ]
