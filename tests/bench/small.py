"""Operations on a small repository, one at a time: what a person or a small step waits for."""

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from graveler.clock import Clock
from graveler.committed import Splitting
from graveler.config import load_config
from graveler.kv.store import KVStore, Stored
from graveler.lake import Repository
from graveler.lake.factory import connect
from graveler.testing.world import link_unseen
from tests.bench.lakes import entries, entry, new_repository
from tests.bench.measure import Result, clocked, percentile, progress

SIZE = 1_000
TIMES = 500

_versions = count(1)


def small(folder: Path) -> list[Result]:
    """Measure a commit of one change, the making of a branch, and an idle read of one."""
    lake, repo = new_repository(folder / "small", "bench", Splitting())
    with lake:
        main = repo.branch("main")
        link_unseen(main, entries("input", SIZE))
        main.commit("the start")
        results = [_commit(repo), _create_branch(repo)]
    return [*results, *_idle_read(folder / "small")]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def _both(seconds: list[float]) -> str:
    return f"median {_ms(percentile(seconds, 0.5))}, p99 {_ms(percentile(seconds, 0.99))}"


def _commit(repo: Repository) -> Result:
    progress(f"{TIMES} commits of one change")
    main = repo.branch("main")
    seconds = []
    for number in range(TIMES + 20):
        link_unseen(main, [entry(f"input/changing-{number % 50}-{next(_versions)}")])
        seconds.append(clocked(lambda: main.commit("one change")))
    seconds = seconds[20:]
    return Result(
        "commit of one change into a small repository",
        _both(seconds),
        "median at most 5 ms",
        percentile(seconds, 0.5) <= 0.005,
        f"{TIMES} commits on {SIZE:,} entries",
    )


def _create_branch(repo: Repository) -> Result:
    progress(f"{2 * TIMES} branches")
    numbers = iter(range(2 * TIMES))
    seconds = [
        clocked(lambda: repo.create_branch(f"branch-{next(numbers):04d}")) for _ in range(2 * TIMES)
    ]
    return Result(
        "create branch",
        _both(seconds),
        "p99 at most 5 ms",
        percentile(seconds, 0.99) <= 0.005,
        f"{2 * TIMES:,} branches",
    )


class _SleeplessClock(Clock):
    """The machine's time, and a count of the sleeps asked for."""

    def __init__(self) -> None:
        self.sleeps = 0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1


def _counted_reads(kv: KVStore) -> list[str]:
    """Return a list that grows with each read of one key."""
    asked: list[str] = []
    get = kv.get

    def counted(partition: str, key: bytes) -> Stored | None:
        asked.append(partition)
        return get(partition, key)

    kv.get = counted  # type: ignore[method-assign]
    return asked


def _idle_read(folder: Path) -> list[Result]:
    progress("idle reads of a branch")
    clock = _SleeplessClock()
    with connect(load_config(folder), clock=clock) as lake:
        stores = lake.repository("bench").stores
        main = lake.repository("bench").branch("main")
        path = next(iter(main.entries())).path
        partition, key = f"refs:{stores.uid}", b"branch/main"
        asked = _counted_reads(stores.kv)
        stores.refs.branches.get("main")
        reads = len(asked)
        bare, branch, stat = [], [], []
        for _ in range(5_000):  # in turns, so that all meet the same noise
            bare.append(clocked(lambda: stores.kv.get(partition, key)))
            branch.append(clocked(lambda: stores.refs.branches.get("main")))
            stat.append(clocked(lambda: main.stat(path)))
    floor, read = percentile(bare, 0.5), percentile(branch, 0.5)
    added = (read - floor) * 1e6
    return [
        Result(
            "idle read of a branch record",
            f"{reads} KV read, {clock.sleeps} sleeps, {added:.0f} µs besides",
            "1 read, no sleep, at most 50 µs besides",
            (reads, clock.sleeps) == (1, 0) and added <= 50,
            f"{read * 1e6:.0f} µs against {floor * 1e6:.0f} µs of the bare read; "
            f"a whole stat {percentile(stat, 0.5) * 1e6:.0f} µs",
        )
    ]
