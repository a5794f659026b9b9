"""How fast ranges are built, against RocksDB's writer alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    DBCompressionType,
    Options,
    SstFileWriter,
)

from graveler.committed import RangeCache, RangeStore, RangeWriter, Splitting
from graveler.names import path_key
from graveler.objects.local import LocalStore
from graveler.records import stage_entry, staged_changes
from tests.bench.lakes import entries, new_repository
from tests.bench.measure import Result, progress, timed

COUNT = 1_000_000


def bare_writer(path: Path) -> SstFileWriter:
    """RocksDB's writer with the options of our tables."""
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.snappy())
    table = BlockBasedOptions()
    table.set_format_version(5)
    table.set_block_size(32 * 1024)
    table.set_block_restart_interval(16)
    options.set_block_based_table_factory(table)
    writer = SstFileWriter(options)
    writer.open(str(path))
    return writer


def building(folder: Path) -> list[Result]:
    """Measure range building from prepared records, and the commit of a million staged ones."""
    progress(f"preparing {COUNT:,} records")
    staged = [
        (key := path_key(entry.path), stage_entry(key, entry)) for entry in entries("input", COUNT)
    ]
    prepared = [
        (key, record, value)
        for key, record, value in staged_changes(staged)
        if record is not None and value is not None
    ]
    tables = iter(range(1_000))

    def bare() -> None:
        writer = bare_writer(folder / f"bare-{next(tables)}.sst")
        for key, _, value in prepared:
            writer[key] = value
        writer.finish()

    def ours() -> None:
        place = folder / f"ranges-{next(tables)}"
        store = RangeStore(LocalStore(place / "objects"), RangeCache(place / "cache", 2**34))
        writer = RangeWriter(store, Splitting())
        writer.add_all(prepared)
        writer.finish()

    progress("building ranges")
    floor, built = (
        min(times) for times in zip(*((timed(bare), timed(ours)) for _ in range(5)), strict=True)
    )
    results = [
        Result(
            "range building, 1,000,000 prepared records",
            f"{floor / built:.2f} of SstFileWriter's rate",
            "at least 0.5",
            floor / built >= 0.5,
            f"{COUNT / built:,.0f}/s against {COUNT / floor:,.0f}/s",
        )
    ]
    return [*results, _staged_commit(folder, staged)]


def _staged_commit(folder: Path, staged: list[tuple[bytes, bytes]]) -> Result:
    """Commit a million staged entries, against a loop that only scans them and writes a table."""
    turns = []
    for turn in range(3):
        progress(f"staging and committing {len(staged):,} entries, turn {turn + 1} of 3")
        turns.append(_one_commit(folder / f"staged-{turn}", staged))
    floor, seconds = (min(times) for times in zip(*turns, strict=True))
    ratio = floor / seconds
    return Result(
        "commit of 1,000,000 entries staged in SQLite",
        f"{ratio:.2f} of a bare scan into SstFileWriter",
        "at least 0.5",
        ratio >= 0.5,
        f"{COUNT / seconds:,.0f}/s against {COUNT / floor:,.0f}/s",
    )


def _one_commit(place: Path, staged: list[tuple[bytes, bytes]]) -> tuple[float, float]:
    """Return the seconds of the bare loop and of the commit."""
    lake, repo = new_repository(place, "bench", Splitting())
    with lake:
        branch = repo.stores.refs.branches.get("main")
        repo.stores.staging.set_many(branch.staging_token, staged)
        partition = f"staging:{repo.stores.uid}:{branch.staging_token}"

        def bare() -> None:
            writer = bare_writer(place / "bare.sst")
            with closing(sqlite3.connect(place / "kv.sqlite3")) as database:
                rows = database.execute(
                    "SELECT key, value FROM kv WHERE partition = ? ORDER BY key", (partition,)
                )
                for key, value in rows:
                    writer[key] = value[33:]
            writer.finish()

        floor = timed(bare)
        seconds = timed(lambda: repo.branch("main").commit("a million"))
    return floor, seconds
