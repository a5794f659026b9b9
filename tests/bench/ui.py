"""The pages of `graveler ui` over a large repository, and the memory of its process."""

import http.client
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import urlencode, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graveler.base.background import batches
from graveler.base.names import path_key
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.lake import Repository
from graveler.model import Entry
from graveler.pages import ROUTES
from graveler.testing.world import link_unseen
from graveler.values import stage_entry, staged_changes
from tests.bench.lakes import START, entries, hour_entries, new_repository
from tests.bench.measure import Result, clocked, ms, percentile, progress
from tests.harness.run_records import add_hours

FILES = 1_000_000
HOURS = 2_525  # with those that are missing; two commits and four runs for each
PIPELINES = ("hourly", "weather", "delays", "carriers")
PER_HOUR = 200
CHANGED = 20
PARQUET_BYTES = 1 << 30
TIMES = 40
PAGE_S, COMPARE_S, ROWS_S, MEMORY_MIB = 0.3, 1.0, 0.5, 300
_TOKEN = "grav-of-the-benchmark"
_TABLE = "tables/large.parquet"
_COLUMNS, _ROWS = 8, 1 << 20


def ui(folder: Path) -> list[Result]:
    """Measure every page, warm, by a client of the served pages."""
    _fill(folder / "lake", folder)
    with _server(folder / "lake") as (authority, process):
        results = []
        for name in ("-", *ROUTES):
            limit = {"compare": COMPARE_S, "file": ROWS_S}.get(name, PAGE_S)
            progress(f"page {name or 'of the repository'}")
            targets = list(_targets(name))
            results.append(_measured(authority, name, targets, limit))
        results.append(_memory(process))
    return results


def _fill(place: Path, scratch: Path) -> None:
    progress(f"a lake of {FILES:,} files")
    lake, repo = new_repository(place, "bench")
    with lake:
        _add_tree(repo, entries("input", FILES, PER_HOUR))
        repo.create_branch("first")
        progress(f"{HOURS:,} hours of runs")
        add_hours(repo, HOURS, PIPELINES)
        main = repo.branch("main")
        for number in range(CHANGED):
            hour = START + timedelta(hours=FILES // PER_HOUR + number)
            link_unseen(main, hour_entries("input", hour, PER_HOUR))
            main.commit(f"hour {hour:%Y-%m-%d %H:%M}")
        progress(f"a Parquet file of {PARQUET_BYTES:,} bytes")
        main.put(_TABLE, _parquet(scratch / "large.parquet"))
        main.commit("a large file")
        repo.ingestion().branch.put("input/late.csv", b"1")


def _add_tree(repo: Repository, files: Iterator[Entry]) -> None:
    """Commit files to main as a bulk import does, without staging them."""
    stores, head = repo.stores, repo.commit("main")
    with RangeWriter(stores.ranges, stores.splitting) as writer:
        for chunk in batches(files, 50_000):
            staged = ((path_key(one.path), stage_entry(path_key(one.path), one)) for one in chunk)
            writer.add_all(
                (key, record, value)
                for key, record, value in staged_changes(staged)
                if record is not None and value is not None
            )
        tree, _ = writer.finish_tree()
    made = stores.refs.commits.add(
        metarange=tree,
        parents=(head.id,),
        message="files",
        committer="bench",
        created=START,
        metadata={},
    )
    main, predicate = stores.refs.branches.get_for_update("main")
    stores.refs.branches.replace(replace(main, commit_id=made.id), predicate, action="commit")


def _parquet(file: Path) -> Path:
    """Write a file of random numbers, a row group after the other."""
    numbers = np.random.default_rng(1).random(_ROWS)
    table = pa.table({f"column_{number}": numbers for number in range(_COLUMNS)})
    with pq.ParquetWriter(file, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(PARQUET_BYTES // table.nbytes + 1):
            writer.write_table(table)
    return file


@contextmanager
def _server(place: Path) -> Iterator[tuple[str, int]]:
    """Serve the pages of a lake in another process; yield its authority and its process id."""
    command = [sys.executable, "-m", "graveler", "-C", str(place), "ui", "--port", "0"]
    environment = {**os.environ, "GRAVELER_UI_TOKEN": _TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        try:
            yield urlsplit(process.stdout.readline().strip()).netloc, process.pid
        finally:
            process.terminate()


def _targets(name: str) -> Iterator[str]:
    """Yield addresses of a page, as a reader goes from one to the next."""
    choose = random.Random(1)
    for _ in range(TIMES):
        hour = START + timedelta(hours=choose.randrange(200, HOURS))
        asked = {
            "commit": {"at": f"main~{choose.randrange(1, 200)}"},
            "compare": {"left": "first", "right": "main"},
            "file": {"path": _TABLE},
            "files": {"path": f"input/{hour:%Y/%m/%d/%H:%M}/"},
            "run": {"key": f"hourly {hour:%Y-%m-%dT%H:%MZ}"},
            "runs": {"month": f"{hour:%Y-%m}"},
            "search": {"q": f"input/{hour:%Y/%m/%d}/"},
        }
        query = urlencode(asked.get(name, {}))
        yield "/" if name == "-" else f"/bench/{name}?{query}".rstrip("/?")


def _measured(authority: str, name: str, targets: Sequence[str], limit: float) -> Result:
    statuses = {_get(authority, target) for target in targets}  # warm
    seconds = [clocked(partial(_get, authority, target)) for target in targets]
    high = percentile(seconds, 0.95)
    shown = {"-": "of the lake", "": "of the repository"}.get(name, name)
    details = f"median {ms(median(seconds))}, {len(seconds)} requests"
    if not statuses <= {200, 404}:  # an hour that is missing has no run
        details += f"; statuses {statuses}"
    holds = high <= limit and statuses <= {200, 404} and 200 in statuses
    return Result(
        f"page {shown}, 95th percentile", ms(high), f"at most {ms(limit)}", holds, details
    )


def _get(authority: str, target: str) -> int:
    connection = http.client.HTTPConnection(authority, timeout=60)
    port = authority.rpartition(":")[2]
    connection.request("GET", target, headers={"Cookie": f"graveler-{port}={_TOKEN}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def _memory(process: int) -> Result:
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    peak = int(status.partition("VmHWM:")[2].split()[0]) >> 10
    return Result(
        "memory of the process that serves them, its peak",
        f"{peak} MiB",
        f"at most {MEMORY_MIB} MiB",
        peak <= MEMORY_MIB,
        f"after {TIMES} requests of each page",
    )
