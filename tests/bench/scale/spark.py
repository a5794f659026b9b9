"""Rows on Spark: the cost of graveler's part, compared with Spark alone and with one process."""

import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.client import HTTPConnection
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import urlopen

import graveler
from graveler import spark as gs
from graveler.committed.splitting import DEFAULT
from graveler.lake import Repository
from graveler.model import Commit
from graveler.server import Server
from graveler.spark.metadata.options import Request
from graveler.spark.metadata.trees import TreeReader
from graveler.testing.world import link_unseen
from tests.bench.measure import Result, alternate, clocked, progress
from tests.bench.scale.children import in_child
from tests.bench.scale.place import Place, changed, entry_of, ranges_of
from tests.bench.scale.table import at_least, at_most

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OVER_NATIVE = " of Spark's own rate on plain folders"
_TICKS = os.sysconf("SC_CLK_TCK")
_CORES = 2
_SIZES = 4
_CHUNK = 1 << 20


@contextmanager
def _spark(cores: int = _CORES) -> Iterator["SparkSession"]:
    """Yield a session with default settings, and stop its JVM."""
    session = gs.session(master=f"local[{cores}]", app_name="benchmark")
    try:
        yield session
    finally:
        session.stop()


def _wide(spark: "SparkSession", rows: int) -> "DataFrame":
    """Return a frame of eight columns: numbers, a time, texts."""
    return spark.range(rows).selectExpr(
        "id",
        "timestamp_micros(1700000000000000 + id * 1000) as at",
        "concat('customer-', lpad(id * 7919 % 1000003, 12, '0')) as customer",
        "concat('group-', id % 17) as grp",
        "rand(1) as amount",
        "rand(2) * 100 as price",
        "cast(id % 1000 as int) as units",
        "id % 3 = 0 as paid",
    )


def tables(place: Place) -> list[Result]:
    """Write and read a table through graveler and by Spark alone, in turns."""
    progress(f"a table of {place.rows:,} rows")
    (write, bare_write), (read, bare_read) = in_child(_tables, place)
    rows = f"{place.rows:,} rows of 8 columns, medians of {place.repeats} in turns"
    return [
        at_least(
            f"{name} of a table of {place.rows:,} rows on Spark",
            bare / ours,
            0.95,
            _OVER_NATIVE,
            f"{ours:.2f} s and {bare:.2f} s; {rows}",
        )
        for name, ours, bare in (("write", write, bare_write), ("read", read, bare_read))
    ]


def _tables(place: Place) -> tuple[tuple[float, float], tuple[float, float]]:
    plain = str(place.scratch / "plain")
    with graveler.init(place.scratch / "lake") as lake, _spark() as spark:
        tables = gs.Tables(lake.create_repository("bench"), spark)
        frame = _wide(spark, place.rows)

        def write() -> None:
            with tables.transaction("main", message="bench") as tx:
                tx.write(frame, "tables/wide/", mode="overwrite")

        def write_bare() -> None:
            frame.write.mode("overwrite").parquet(plain)

        def scan(wide: "DataFrame") -> None:
            wide.selectExpr(
                "count(distinct grp)",
                "max(at)",
                "max(customer)",
                "sum(amount)",
                "sum(price)",
                "sum(units)",
                "count_if(paid)",
                "sum(id)",
            ).collect()

        write_bare()  # the first job of a session is slower than the second
        written = alternate(write, write_bare, place.repeats)
        read = alternate(
            lambda: scan(tables.read("main", "tables/wide/")),
            lambda: scan(spark.read.parquet(plain)),
            place.repeats,
        )
        return written, read


def planning(place: Place) -> list[Result]:
    """Plan reads of tables of many tiny files."""
    progress(f"tables of up to {place.files:,} files")
    ours, bare = zip(*in_child(_planning, place), strict=True)
    place.plot(
        "spark-planning",
        "Planning a read on Spark",
        (f"files, in {place.files // _SIZES:,}", "s"),
        {"graveler": ours, "Spark, with the paths and the schema": bare},
    )
    return [
        at_most(
            f"planning a read of {place.files:,} files on Spark",
            ours[-1],
            3.0,
            " s",
            f"median of {place.repeats}; Spark's own with the paths and the schema: {bare[-1]:.2f} s",
        )
    ]


def _planning(place: Place) -> list[tuple[float, float]]:
    """Return the seconds for tables of a fourth of the files, of two fourths, and so on."""
    from pyspark.sql import SparkSession  # noqa: F401 - loaded before the clock runs

    with graveler.init(place.scratch / "lake") as lake, _spark() as spark:
        repo = lake.create_repository("bench")
        tables = gs.Tables(repo, spark)
        with tables.transaction("main", message="one file") as tx:
            tx.write(spark.range(100).coalesce(1), "one/")
        main = repo.branch("main")
        (one,) = main.entries("one/")
        body = main.get(one)
        schema = spark.range(1).schema
        found = []
        for share in range(1, _SIZES + 1):
            folder = f"many-{share}/"
            names = (
                f"{folder}day={n % 30:02d}/part-{n:05d}.parquet"
                for n in range(place.files * share // _SIZES)
            )
            main.put_many((name, body) for name in names)
            main.commit("many files")
            paths = [
                str(repo.stores.objects.local_file(entry.address)) for entry in main.entries(folder)
            ]

            def plan(folder: str = folder) -> None:
                tables.read("main", folder).groupBy().count().explain()

            def plan_bare(paths: list[str] = paths) -> None:
                spark.read.schema(schema).parquet(*paths).groupBy().count().explain()

            found.append(alternate(plan, plan_bare, place.repeats if share == _SIZES else 1))
        return found


def imports(place: Place) -> list[Result]:
    """Import files by tasks on one core and on two, and in one process; check that the trees are equal."""
    found = {}
    for name, cores in (("one process", 0), ("one core", 1), ("two cores", _CORES)):
        progress(f"an import of {place.imported:,} entries: {name}")
        scratch = place.scratch / name.replace(" ", "-")
        found[name] = in_child(_import, scratch, place.imported, cores)
        shutil.rmtree(scratch)
    (tree, alone, alone_cpu), (first, one, _), (second, two, cpu) = found.values()
    assert tree == first == second, "tasks give the tree of one process"
    entries = f"{place.imported:,} entries"
    return [
        at_least(
            f"bulk import of {entries} on Spark, two cores over one",
            one / two,
            1.7,
            " times as fast",
            f"{two:.0f} s and {one:.0f} s, the same tree",
        ),
        at_least(
            f"bulk import of {entries} on Spark, for each second of a processor over one process",
            alone_cpu / cpu,
            0.5,
            " of the entries",
            f"{cpu:.0f} s and {alone_cpu:.0f} s of processors, {two:.0f} s and {alone:.0f} s of time, the "
            "same tree",
        ),
    ]


def _import(scratch: Path, entries: int, cores: int) -> tuple[str, float, float]:
    """Return the tree's id, the seconds, and those of all processors in them."""
    address = "s3://bucket/bulk"
    with graveler.init(scratch) as lake:
        # different numbers would cut the repositories differently
        repo = lake.create_repository("bench", splitting=replace(DEFAULT, number=1))
        repo.links.allow(address)
        main = repo.branch("main")
        listing = scratch / "listing.parquet"
        with _spark(cores or 1) as spark:
            spark.range(entries).selectExpr(
                "concat('day=', lpad(id % 365, 3, '0'), '/part-', lpad(id, 9, '0'), '.parquet') as path",
                f"concat('{address}/', id, '.parquet') as address",
                "id * 10 as size",
                "md5(cast(id as string)) as etag",
            ).write.parquet(str(listing))
            if cores:
                frame = spark.read.parquet(str(listing))
                seconds, cpu = _spent(lambda: gs.import_frame(main, frame, "bulk/", message="bulk"))
                return main.head.metarange, seconds, cpu

        def import_() -> None:
            for file in sorted(listing.glob("*.parquet")):
                main.import_(str(file), "bulk/")
            main.commit("bulk")

        seconds, cpu = _spent(import_)
        return main.head.metarange, seconds, cpu


def _spent(run: Callable[[], object]) -> tuple[float, float]:
    cpu, began = _processors(), time.perf_counter()
    run()
    return time.perf_counter() - began, _processors() - cpu


def _processors() -> float:
    """Return the seconds of all processors that this process and its descendants have used."""
    used, parents = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text("utf-8")
        except OSError:
            continue  # the process has ended
        fields = text.rpartition(")")[2].split()
        pid = int(status.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = sum(map(int, fields[11:15])) / _TICKS
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[pid] for pid in ours)


def differences(place: Place) -> list[Result]:
    """Compare commits of a tree of 200 ranges, with three and with all ranges different."""
    progress("differences by tasks")
    found: list[Result] = in_child(_differences, place)
    return found


def _differences(place: Place) -> list[Result]:
    with graveler.init(place.scratch / "lake") as lake:
        repo = lake.create_repository("bench")
        _commit(repo, range(place.compared))
        _commit(repo, range(0, place.compared, place.compared // 3), change=True)
        _commit(repo, range(place.compared), change=True)
        left, right, whole = (repo.commit(f"main~{back}") for back in (2, 1, 0))
        before, after = (set(ranges_of(repo.ref(commit))) for commit in (left, right))
        request = Request("", "", kind="diff", parallelism=_CORES)
        reader = TreeReader(repo.stores.ranges, request, [left.metarange, right.metarange])
        read = sum(len(of.left) + len(of.right) for of in (p.value for p in reader.partitions()))
        with _spark() as spark:
            tables = gs.Tables(repo, spark)

            def on_spark(other: Commit) -> int:
                found = tables.diff(left, other)
                return found.count() if other is whole else len(found.collect())

            def by_process(other: Commit) -> int:
                return sum(1 for _ in repo.diff(left, other))

            def times(other: Commit) -> tuple[float, float]:
                assert on_spark(other) == by_process(other)
                return alternate(
                    partial(on_spark, other), partial(by_process, other), place.repeats
                )

            frame, process = times(right)
            tasks_whole, process_whole = times(whole)
            row = tables.diff(left, right).limit(1).toArrow()
            least = median(
                clocked(spark.createDataFrame(row).collect) for _ in range(place.repeats)
            )
    of = f"of {len(before)} and {len(after)} ranges"
    return [
        at_most("ranges that tasks read for a diff", read, len(before ^ after), "", of),
        at_most(
            "diff of two commits on Spark, over one process",
            frame / process,
            1.2,
            " times the seconds",
            f"{1e3 * frame:.1f} ms and {1e3 * process:.1f} ms; Spark's own frame of one row, made and "
            f"collected: {1e3 * least:.1f} ms",
        ),
        at_most(
            f"the same where all of {place.compared:,} entries differ",
            tasks_whole / process_whole,
            1.2,
            " times the seconds",
            f"{tasks_whole:.2f} s and {process_whole:.2f} s",
        ),
    ]


def _commit(repo: Repository, numbers: range, *, change: bool = False) -> None:
    main = repo.branch("main")
    link_unseen(main, map(changed if change else entry_of, numbers))
    main.commit("entries")


def gateway(place: Place) -> list[Result]:
    """Write and read a large file through the gateway, and on the local disk."""
    progress(f"{place.gateway_mib:,} MiB through the gateway")
    found: list[Result] = in_child(_gateway, place)
    return found


def _serve(folder: Path, say: Connection) -> None:
    """Serve a lake until the other end of the pipe is closed."""
    with graveler.open(folder) as lake, Server(lake) as server:
        say.send((server.address, server.token))
        with suppress(EOFError):
            say.recv()


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve a lake in a separate process; yield its address and token."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    server = processes.Process(target=_serve, args=(folder, theirs))
    server.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        server.join()


def _forget(folder: Path) -> None:
    """Remove the large files of a folder from the page cache, because the disk is compared."""
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size >= _CHUNK:
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _gateway(place: Place) -> list[Result]:
    block, numbers = os.urandom(_CHUNK), count()
    plain = place.scratch / "plain"
    plain.mkdir()
    folder = place.scratch / "lake"
    with graveler.init(folder) as lake:
        lake.create_repository("bench")
    with _served(folder) as (address, token):
        at = urlsplit(address)
        home = f"/webhdfs/v1/bench/main/large?delegation={token}"

        def write() -> None:
            url = f"{home}&op=CREATE&overwrite=true&data=true"
            connection = HTTPConnection(str(at.hostname), at.port)
            body = (block for _ in range(place.gateway_mib))
            connection.request("PUT", url, body, encode_chunked=True)
            assert connection.getresponse().status < 300
            connection.close()

        def write_bare() -> None:
            # a new file each time, because a disk overwrites a file several times as fast
            with (plain / f"{next(numbers)}").open("wb") as file:
                for _ in range(place.gateway_mib):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())

        def read() -> None:
            got = 0
            _forget(folder)
            with urlopen(f"http://{at.netloc}{home}&op=OPEN") as answer:
                while part := answer.read(_CHUNK):
                    got += len(part)
            assert got == place.gateway_mib * _CHUNK

        def read_bare() -> None:
            _forget(plain)
            with (plain / "0").open("rb") as file:
                while file.read(_CHUNK):
                    pass

        written = alternate(write, write_bare, place.repeats)
        got = alternate(read, read_bare, place.repeats)
    hashed = median(clocked(lambda: sha256(block).digest()) for _ in range(4 * place.repeats))
    return [
        at_least(
            f"{name} of a file of {place.gateway_mib:,} MiB through the gateway",
            bare / ours,
            0.7,
            " of the local disk's rate",
            f"{place.gateway_mib / ours:,.0f} and {place.gateway_mib / bare:,.0f} MiB/s, medians of "
            f"{place.repeats} in turns, one client; the SHA-256 of the same bytes alone: "
            f"{_CHUNK / (1 << 20) / hashed:,.0f} MiB/s",
        )
        for name, (ours, bare) in (("write", written), ("read", got))
    ]
