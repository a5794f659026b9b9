"""The run of the demo: a day of hours, one of which arrives damaged."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import graveler
from graveler import frames
from graveler.base.arguments import choice
from graveler.base.background import Progress, no_progress
from graveler.committed.splitting import Splitting
from graveler.demo.flights import FLIGHTS, hour_prefix, land, load_flights
from graveler.demo.pipeline import run_hour, run_key
from graveler.errors import GateFailedError, InternalError, InvalidInputError
from graveler.gates import Verdict
from graveler.lake import Lake, Repository
from graveler.reads.changes import range_reuse
from graveler.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REPOSITORY = "flights"
SYSTEM = "demo"

_DAMAGED = 6
_DISKS = {"files": 0, "keep": 3}
# a day has only some hundred files: small ranges show how a large lake reuses them
_SPLITTING = Splitting(raggedness=2)


@dataclass(frozen=True, slots=True)
class HourResult:
    """The result of one attempt at one hour."""

    hour: datetime
    key: str
    state: str
    attempt: int
    commit: str
    rows: int
    ranges_written: int
    ranges_reused: int
    seconds: float
    verdicts: tuple[Verdict, ...]
    damaged: bool

    @property
    def message(self) -> str:
        """The reasons of the gates; "" if there are none."""
        return "; ".join(
            f"{verdict.gate}: {verdict.reason}" for verdict in self.verdicts if verdict.reason
        )


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of the demo.

    Attributes:
        disks: The folders of the servers of Keep; none if the files are in the lake's folder.
    """

    lake: Path
    repository: str
    landing: Path
    runs: tuple[HourResult, ...]
    flights: int
    expected: int
    seconds: float
    spark_seconds: float
    disks: tuple[Path, ...] = ()

    @property
    def published(self) -> list[HourResult]:
        """The attempts that were published."""
        return [run for run in self.runs if run.state == "PUBLISHED"]

    @property
    def stopped(self) -> list[HourResult]:
        """The attempts that a gate stopped."""
        return [run for run in self.runs if run.state != "PUBLISHED"]

    @property
    def ranges_written(self) -> int:
        """Range files that were added to main."""
        return sum(run.ranges_written for run in self.published)

    @property
    def ranges_reused(self) -> int:
        """Range files of main that were reused."""
        return sum(run.ranges_reused for run in self.published)


def run_demo(
    folder: Path,
    *,
    hours: int = 24,
    progress: Progress | None = None,
    spark: "SparkSession | None" = None,
    storage: str = "files",
) -> DemoResult:
    """Make a lake in `folder` and publish real hours into it; one of them arrives damaged.

    The gates stop the damaged hour, and main does not move. Later hours are published meanwhile. At
    the end the hour arrives again, undamaged, and is published. With the storage ``keep``, the files are on
    three servers of Keep during the call, two copies of each block.
    """
    choice(storage, "storage", _DISKS)
    disks = [folder / "disks" / str(number) for number in range(1, _DISKS[storage] + 1)]
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{folder} is not an empty folder: give the demo a new one")
    started = perf_counter()
    report = progress or no_progress
    report("Reading the flights of 2013", 0, hours + 1)
    flights = load_flights()
    chosen = flights.hours(hours) if hours > 0 else []
    if len(chosen) != hours or not chosen:
        raise InvalidInputError(f"{hours} hours: give 1 to {len(flights.hours())}")
    report("Starting Spark", 0, hours + 1)
    running = spark or session(master="local[2]", app_name="graveler demo")
    try:
        ready = perf_counter()
        with graveler.init(folder / "lake") as lake, serving(lake, disks):
            place = f"keep://{SYSTEM}/{REPOSITORY}" if disks else None
            repository = lake.create_repository(REPOSITORY, storage=place, splitting=_SPLITTING)
            repository.protection.add("main")
            landing = folder / "landing"
            damaged = chosen[min(_DAMAGED, len(chosen) - 1)]
            arrivals = [*((hour, hour == damaged) for hour in chosen), (damaged, False)]
            runs = []
            for done, (hour, is_damaged) in enumerate(arrivals):
                report(run_key(hour), done, len(arrivals))
                land(flights, hour, landing, damaged=is_damaged)
                runs.append(_run(repository, hour, landing, running, damaged=is_damaged))
            report("Done", len(arrivals), len(arrivals))
            return DemoResult(
                lake=folder / "lake",
                repository=REPOSITORY,
                landing=landing,
                runs=tuple(runs),
                flights=_count_flights(repository, f"{FLIGHTS}/"),
                expected=sum(flights.flights.text(hour).count("\n") - 1 for hour in chosen),
                seconds=perf_counter() - started,
                spark_seconds=ready - started,
                disks=tuple(disks),
            )
    finally:
        if spark is None:
            running.stop()


@contextmanager
def serving(lake: Lake, disks: Sequence[Path]) -> Iterator[Sequence[str]]:
    """Run a server of the demo's system on each disk during a block, and return their addresses."""
    from graveler.server import KeepServer

    if disks and not disks[0].exists():
        lake.keep.create(SYSTEM)
    with ExitStack() as stack:
        servers = [KeepServer(lake, SYSTEM, [disk]) for disk in disks]
        for number, server in enumerate(servers):
            stack.callback(server.close)
            lake.keep.add_server(SYSTEM, server.address, f"demo0-bi6l4-{number:015}")
        yield [server.address for server in servers]


def _count_flights(repository: Repository, prefix: str) -> int:
    return int(frames.read(repository.ref("main"), prefix, "pyarrow").num_rows)


def _run(
    repository: Repository, hour: datetime, landing: Path, spark: "SparkSession", *, damaged: bool
) -> HourResult:
    """Run the pipeline of an hour; a gate must stop it if the hour arrived damaged."""
    before = repository.commit("main")
    started = perf_counter()
    refusal: GateFailedError | None = None
    try:
        verdicts = run_hour(repository, hour, landing, spark).verdicts
    except GateFailedError as error:
        refusal, verdicts = error, error.verdicts
    seconds = perf_counter() - started
    after = repository.commit("main")
    if (refusal is not None) != damaged or (after == before) != damaged:
        raise InternalError(
            f"{run_key(hour)}: main went from {before.id[:12]} to {after.id[:12]}"
        ) from refusal
    # the run's branch has written the ranges, so compare with the ranges of main before
    published = replace(after, parents=(before.id,))
    written, reused = (0, 0) if damaged else range_reuse(repository.stores, published)
    record = repository.runs.get(run_key(hour))
    return HourResult(
        hour=hour,
        key=record.key,
        state=record.state,
        attempt=record.attempt,
        commit=after.id,
        rows=0 if damaged else _count_flights(repository, hour_prefix(FLIGHTS, hour)),
        ranges_written=written,
        ranges_reused=reused,
        seconds=seconds,
        verdicts=verdicts,
        damaged=damaged,
    )
