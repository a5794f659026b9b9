"""The rate at which ranges are built, against RocksDB's writer alone."""

import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

from rocksdict import (
    BlockBasedOptions,
    DBCompressionType,
    Options,
    SstFileWriter,
)

from graveler.committed import RangeCache, RangeStore, RangeWriter, Splitting
from graveler.committed.flat import Record
from graveler.names import path_key
from graveler.objects.local import LocalStore
from graveler.values import stage_entry, staged_changes
from tests.bench.lakes import entries, new_repository
from tests.bench.measure import Result, alternate, at_least, progress, timed

COUNT: Final = 1_000_000
TURNS: Final = 5
COMMITS: Final = 3
# A record costs one call of RocksDB's writer in the bare loop. A range adds the record's id, its
# size, the hash that says where the range ends, and per file a checksum, an fsync and the copy into
# the object store: 0.46 to 0.48 of the bare rate on an idle machine.
BUILDING_LIMIT: Final = 0.4
# 0.51 to 0.53 on an idle machine
COMMIT_LIMIT: Final = 0.4


def bare_writer(path: Path) -> SstFileWriter:
    """Return RocksDB's writer with the options of graveler's tables."""
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


def ranges(folder: Path) -> list[Result]:
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
    lake, repo = new_repository(folder / "settings", "bench")
    with lake:
        splitting = repo.stores.splitting
    return [_building(folder, prepared, splitting), _staged_commit(folder, staged)]


def _building(folder: Path, prepared: list[Record], splitting: Splitting) -> Result:
    """Build ranges as a commit does, and a table of the same records by a loop alone."""
    progress("building ranges")
    numbers = iter(range(2 * TURNS))

    def bare() -> None:
        writer = bare_writer(folder / f"bare-{next(numbers)}.sst")
        for key, _, value in prepared:
            writer[key] = value
        writer.finish()

    def build() -> None:
        place = folder / f"ranges-{next(numbers)}"
        store = RangeStore(LocalStore(place / "objects"), RangeCache(place / "cache", 2**34))
        writer = RangeWriter(store, splitting)
        writer.add_all(prepared)
        writer.finish()

    reference, seconds = alternate(bare, build, TURNS)
    return at_least(
        f"range building, {COUNT:,} prepared records",
        reference / seconds,
        BUILDING_LIMIT,
        "SstFileWriter's rate",
        f"{COUNT / seconds:,.0f}/s and {COUNT / reference:,.0f}/s, medians of {TURNS}",
    )


def _staged_commit(folder: Path, staged: list[tuple[bytes, bytes]]) -> Result:
    """Commit a million staged entries; scan them and write a table by a loop alone."""
    pairs = []
    for number in range(COMMITS):
        progress(f"staging and committing {len(staged):,} entries, {number + 1} of {COMMITS}")
        pairs.append(_one_commit(folder / f"staged-{number}", staged))
    reference, seconds = (median(times) for times in zip(*pairs, strict=True))
    return at_least(
        f"commit of {COUNT:,} entries staged in SQLite",
        reference / seconds,
        COMMIT_LIMIT,
        "a bare scan into SstFileWriter",
        f"{COUNT / seconds:,.0f}/s and {COUNT / reference:,.0f}/s, medians of {COMMITS}",
    )


def _one_commit(place: Path, staged: list[tuple[bytes, bytes]]) -> tuple[float, float]:
    """Return the seconds of the bare loop and of the commit."""
    lake, repo = new_repository(place, "bench")
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

        return timed(bare), timed(lambda: repo.branch("main").commit("a million"))
