"""Tables of Iceberg on branches, beside PyIceberg's own SQLite catalog on the same disk.

Both have their defaults. What differs between two runs on a machine with other work is the noise, so
each row is measured in several rounds, and the least of each side counts.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from copy import copy
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table

import graveler
from graveler.errors import GravelerError
from graveler.iceberg import GravelerCatalog
from graveler.lake import Lake, Repository
from graveler.runs.run import Run
from tests.bench.contention import PROCESSES, together
from tests.bench.lakes import new_repository
from tests.bench.measure import Result, alternate, at_least, at_most, ms, progress, timed

ROWS = pa.table(
    {
        "hour": ["2013-01-01T05"] * 1_000,
        "carrier": ["UA", "AA", "DL", "B6"] * 250,
        "flight": range(1_000),
        "delay": [number / 7 for number in range(1_000)],
    }
)
TABLE = "db.flights"
ROUNDS, TIMES = 3, 30
FEW, MANY = 100, 10_000
BEHIND, RUNS = 100, 7
TURNS = 5
FILES, LOADS = 1_000_000, 100
SNAPSHOTS = 1_000
APPEND, COMMIT, REGISTER, LOAD, EIGHT, REBASE_MS = 3.0, 1.5, 1.5, 1.2, 0.35, 150
_PROGRAM = "tests.bench.programs.register_or_import"
_PATIENCE_S = 300


def iceberg(folder: Path) -> list[Result]:
    """Measure commits, publishes, a registration and loads of tables."""
    lake, repo = new_repository(folder / "lake", "bench")
    with lake:
        own, peer = GravelerCatalog.of(repo.branch("main")), _peer(folder)
        for catalog in (own, peer):
            catalog.create_namespace("db")
        return [
            _append(own, peer),
            _sizes(lake),
            _load(repo, own, folder / "metadata"),
            _rebase(repo, own),
            *_eight(folder, own, peer),
            _register(repo, folder / "lake", folder / "registered"),
        ]


def _peer(folder: Path) -> SqlCatalog:
    """Return PyIceberg's catalog in SQLite, with its files in a folder."""
    return SqlCatalog(
        "peer", uri=f"sqlite:///{folder}/peer.sqlite", warehouse=f"file://{folder}/warehouse"
    )


def _append(own: Catalog, peer: Catalog) -> Result:
    progress(f"{ROUNDS} x {TIMES} appends to two catalogs")
    seconds = []
    for number in range(ROUNDS):
        left, right = (each.create_table(f"db.a{number}", ROWS.schema) for each in (own, peer))
        seconds.append(alternate(lambda: left.append(ROWS), lambda: right.append(ROWS), TIMES))  # noqa: B023 - called now
    return at_most(
        "append of one file to a table of Iceberg",
        *_least(seconds, APPEND),
        "one by PyIceberg's SQLite catalog",
        _medians(seconds, f"the least medians of {ROUNDS} rounds of {TIMES}"),
    )


def _sizes(lake: Lake) -> Result:
    """Commit to two tables, each in a repository of its own: they share no range of a tree."""
    progress(f"commits to tables of {MANY:,} and of {FEW} files")
    few, many = (_table(lake.create_repository(f"of-{count}")) for count in (FEW, MANY))
    for table, count in ((few, FEW), (many, MANY)):
        place = Path(table.location().removeprefix("file://")) / "data"
        _add(table, _new_files(place, _size(table), count))
    seconds = [
        alternate(lambda: many.append(ROWS), lambda: few.append(ROWS), TIMES) for _ in range(ROUNDS)
    ]
    return at_most(
        f"commit to a table of Iceberg with {MANY:,} data files",
        *_least(seconds, COMMIT),
        f"one to a table with {FEW}",
        _medians(seconds, f"appends, the least medians of {ROUNDS} rounds of {TIMES}"),
    )


def _table(repo: Repository) -> Table:
    catalog = GravelerCatalog.of(repo.branch("main"))
    catalog.create_namespace("db")
    return catalog.create_table(TABLE, ROWS.schema)


def _load(repo: Repository, own: Catalog, place: Path) -> Result:
    progress(f"loads of a table with {SNAPSHOTS:,} snapshots")
    made = own.create_table("db.l", ROWS.schema)
    made.append(ROWS)
    (first,) = made.metadata.snapshots
    snapshots = [
        first.model_copy(
            update={"snapshot_id": first.snapshot_id + number, "sequence_number": number + 1}
        )
        for number in range(SNAPSHOTS)
    ]
    own.drop_table("db.l")
    metadata = made.metadata.model_copy(
        update={"snapshots": snapshots, "last_sequence_number": SNAPSHOTS}
    )
    location, io = f"file://{place}/v1.metadata.json", PyArrowFileIO()
    ToOutputFile.table_metadata(metadata, io.new_output(location))
    repo.links.allow(str(place))
    own.register_table("db.l", location).append(ROWS)
    location = own.load_table("db.l").metadata_location
    seconds = [
        alternate(
            lambda: own.load_table("db.l"),
            lambda: FromInputFile.table_metadata(PyArrowFileIO().new_input(location)),
            TIMES,
        )
        for _ in range(ROUNDS)
    ]
    return at_most(
        f"load of a table of Iceberg with {SNAPSHOTS:,} snapshots",
        *_least(seconds, LOAD),
        "reading its metadata file by PyIceberg",
        _medians(seconds, f"the least medians of {ROUNDS} rounds of {TIMES}"),
    )


def _rebase(repo: Repository, own: Catalog) -> Result:
    """Publish runs that all began before 100 appends, beside runs that meet no other change."""
    progress(f"{RUNS} publishes over {BEHIND} appends")
    table, _ = (own.create_table(f"db.{name}", ROWS.schema) for name in ("moved", "still"))
    table.append(ROWS)
    late = [_appended(repo, "db.moved", f"late {number}") for number in range(RUNS)]
    for _ in range(BEHIND):
        table.append(ROWS)
    seconds = []
    for number, run in enumerate(late):
        plain = _appended(repo, "db.still", f"plain {number}")
        seconds.append((timed(run.publish), timed(plain.publish)))
    rebased, plainly = map(min, zip(*seconds, strict=True))
    rows = own.load_table("db.moved").scan().count()
    assert rows == len(ROWS) * (1 + BEHIND + RUNS), rows
    more = (rebased - plainly) * 1e3
    return Result(
        f"publish of a run that rebases one append to a table of Iceberg onto {BEHIND}",
        f"{more:.0f} ms above a plain publish",
        f"at most {REBASE_MS} ms",
        more <= REBASE_MS,
        f"{ms(rebased)} and {ms(plainly)}, the least of {RUNS}",
    )


def _appended(repo: Repository, table: str, key: str) -> Run:
    """Return an open run that has appended to a table."""
    run = repo.runs.open(key)
    GravelerCatalog.of(run).load_table(table).append(ROWS)
    return run


class _Work(NamedTuple):
    """What one of the processes did."""

    failures: list[str]
    seconds: float


def _publisher(location: str, number: int, start: Barrier, answers: Any) -> None:
    with graveler.open(location) as lake:
        repo = lake.repository("bench")
        GravelerCatalog.of(repo.branch("main")).load_table(TABLE)

        def work(turn: int) -> None:
            _appended(repo, TABLE, f"{number} {turn}").publish()

        answers.put(_worked(work, start, GravelerError))


def _appender(location: str, number: int, start: Barrier, answers: Any) -> None:
    del number
    catalog = _peer(Path(location))
    catalog.load_table(TABLE)
    answers.put(
        _worked(lambda _: catalog.load_table(TABLE).append(ROWS), start, CommitFailedException)
    )


def _worked(work: Callable[[int], object], start: Barrier, failure: type[Exception]) -> _Work:
    failures = []
    start.wait(_PATIENCE_S)
    began = time.perf_counter()
    for turn in range(TURNS):
        try:
            work(turn)
        except failure as error:
            failures.append(repr(error))
    return _Work(failures, time.perf_counter() - began)


def _eight(folder: Path, own: Catalog, peer: Catalog) -> list[Result]:
    count, rates, told = PROCESSES * TURNS, [], []
    for catalog, work, place in ((own, _publisher, folder / "lake"), (peer, _appender, folder)):
        progress(f"{PROCESSES} processes append with {catalog.name}")
        catalog.create_table(TABLE, ROWS.schema)
        seconds, shares = together(work, str(place), PROCESSES)
        failed = sum(len(share.failures) for share in shares)
        kept = catalog.load_table(TABLE).scan().count() // len(ROWS)
        rates.append((count - failed) / seconds)
        told.append((failed, kept, {text for share in shares for text in share.failures}))
    (failed, kept, why), (lost, _, _) = told
    name = f"{PROCESSES} runs append to one table of Iceberg and publish"
    return [
        Result(
            name,
            f"{failed} of {count} fail, {kept} appends are kept",
            "none fails, all are kept",
            not failed and kept == count,
            f"of PyIceberg's own {lost} of {count} fail"
            + "".join(f"; {text[:120]}" for text in sorted(why)[:1]),
        ),
        at_least(
            f"{name}, a second",
            rates[0] / rates[1],
            EIGHT,
            "appends with Iceberg's own retry on PyIceberg's SQLite catalog",
            f"{rates[0]:.1f}/s and {rates[1]:.1f}/s",
        ),
    ]


def _register(repo: Repository, lake: Path, place: Path) -> Result:
    """Register a table that was filled by 100 loads, beside an import of its folder of data."""
    progress(f"a table of {FILES:,} files")
    place.mkdir()
    peer = _peer(place)
    peer.create_namespace("db")
    table = peer.create_table(TABLE, ROWS.schema, location=f"file://{place}/flights")
    size = _size(table)
    for number in range(LOADS):
        _add(table, _new_files(place / "flights" / "data" / f"{number:03}", size, FILES // LOADS))
    repo.links.allow(str(place))
    found: dict[str, list[tuple[float, float]]] = {"register": [], "import": []}
    for turn in range(2):
        for way, measured in found.items():
            progress(f"{way}, {turn + 1}")
            source = table.metadata_location if way == "register" else f"{place}/flights/data"
            command = [sys.executable, "-m", _PROGRAM, str(lake), way, source, f"{way}{turn}"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds, peak = map(float, done.stdout.split())
            measured.append((seconds, peak))
    (seconds, peak), (others, other_peak) = map(min, found.values())
    return at_most(
        f"registration of a table of Iceberg with {FILES:,} data files",
        seconds / others,
        REGISTER,
        "an import of as many files",
        f"{seconds:.0f} and {others:.0f} s, the least of 2 processes; peaks of memory "
        f"{peak / 1024:.0f} and {other_peak / 1024:.0f} MiB",
    )


def _size(table: Table) -> int:
    """Append once, and return the size of the data file."""
    table.append(ROWS)
    return int(_model(table).file_size_in_bytes)


def _model(table: Table) -> Any:
    first = table.metadata.snapshots[0].manifests(table.io)[0]
    return first.fetch_manifest_entry(table.io)[0].data_file


def _new_files(folder: Path, size: int, count: int) -> Iterable[str]:
    """Yield the locations of new files of a size, which are not read."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = f"{folder}/00000-{number}-{os.urandom(16).hex()}.parquet"
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
        os.ftruncate(descriptor, size)
        os.close(descriptor)
        yield f"file://{path}"


def _add(table: Table, locations: Iterable[str]) -> None:
    """Commit data files with the statistics of the first one, which PyIceberg wrote."""
    model = _model(table)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for location in locations:
            file = copy(model)
            file._data = [*model._data]
            file._data[1] = location
            file.spec_id = 0
            append.append_data_file(file)


def _least(seconds: list[tuple[float, float]], limit: float) -> tuple[float, float]:
    left, right = map(min, zip(*seconds, strict=True))
    return left / right, limit


def _medians(seconds: list[tuple[float, float]], what: str) -> str:
    left, right = map(min, zip(*seconds, strict=True))
    return f"{ms(left)} and {ms(right)}, {what}"
