"""Rows of commits of many entries, against RocksDB's table writer alone."""

import time
from collections.abc import Iterator
from pathlib import Path

from rocksdict import BlockBasedOptions, DBCompressionType, Options, SstFileWriter

import graveler
from graveler.base.names import path_key
from graveler.committed.cache.flat import Record
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.testing.world import link_unseen
from graveler.values import stage_entry, staged_changes
from tests.bench.measure import Result, progress
from tests.bench.scale.children import in_child, on_one_core
from tests.bench.scale.place import Place, entry_of
from tests.bench.scale.table import at_least

_CHUNK = 250_000


def _chunks(entries: int) -> Iterator[list[Record]]:
    """Yield the records of the lake with their ids in chunks."""
    for start in range(0, entries, _CHUNK):
        staged = [
            (key := path_key(entry.path), stage_entry(key, entry))
            for entry in map(entry_of, range(start, min(entries, start + _CHUNK)))
        ]
        yield [
            (key, record, value)
            for key, record, value in staged_changes(staged)
            if record is not None and value is not None
        ]


def _bare_writer(path: Path) -> SstFileWriter:
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


def _write_bare(path: Path, records: list[Record]) -> float:
    began = time.perf_counter()
    writer = _bare_writer(path)
    for key, _, value in records:
        writer[key] = value
    writer.finish()
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds


def sorted_stream(place: Place) -> list[Result]:
    """Build the ranges of a tree from sorted records; write the same records by a bare loop, in turns."""
    progress(f"{place.entries:,} sorted records")
    seconds, bare = in_child(_sorted, place.scratch, place.entries)
    return [_over_bare(place, "from a sorted stream with record ids", 0.60, seconds, bare)]


def _sorted(scratch: Path, entries: int) -> tuple[float, float]:
    on_one_core()
    seconds = bare = 0.0
    with graveler.init(scratch / "sorted") as lake:
        stores = lake.create_repository("bench").stores
        with RangeWriter(stores.ranges, stores.splitting) as writer:
            for records in _chunks(entries):
                bare += _write_bare(scratch / "bare.sst", records)
                began = time.perf_counter()
                writer.add_all(records)
                seconds += time.perf_counter() - began
            began = time.perf_counter()
            writer.finish()
            seconds += time.perf_counter() - began
    return seconds, bare


def staged(place: Place) -> list[Result]:
    """Commit entries that are staged in SQLite; write the same records by a bare loop."""
    progress(f"staging {place.entries:,} entries, and their commit")
    seconds, bare = in_child(_staged, place.scratch, place.entries)
    return [_over_bare(place, "out of SQLite staging", 0.35, seconds, bare)]


def _staged(scratch: Path, entries: int) -> tuple[float, float]:
    with graveler.init(scratch / "staged") as lake:
        main = lake.create_repository("bench").branch("main")
        link_unseen(main, map(entry_of, range(entries)))
        on_one_core()
        began = time.perf_counter()
        main.commit("all of them")
        seconds = time.perf_counter() - began
    return seconds, sum(_write_bare(scratch / "bare.sst", records) for records in _chunks(entries))


def _over_bare(place: Place, what: str, limit: float, seconds: float, bare: float) -> Result:
    return at_least(
        f"commit of {place.entries:,} entries, one core, {what}",
        bare / seconds,
        limit,
        " of the raw table writer's rate",
        f"{place.entries / seconds:,.0f}/s and {place.entries / bare:,.0f}/s, the same compression",
    )
