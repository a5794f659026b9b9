"""The rows by name; each runs in a separate process."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.bench.measure import Result
from tests.bench.scale import (
    bulk,
    changes,
    histories,
    listings,
    lookups,
    metaranges,
    packing,
    seeds,
    spark,
    statements,
)
from tests.bench.scale.children import ChildError, in_child
from tests.bench.scale.contention import contention
from tests.bench.scale.place import Place
from tests.bench.scale.plots import Plot
from tests.bench.scale.transfers import many_files, wall

_LONGEST = 200

Row = Callable[[Place], list[Result]]

ON_SPARK: dict[str, Row] = {
    "spark_tables": spark.tables,
    "spark_planning": spark.planning,
    "spark_imports": spark.imports,
    "spark_diff": spark.differences,
    "gateway": spark.gateway,
}

ROWS: dict[str, Row] = {
    "stat_many": lookups.stat_many,
    "stat": lookups.stat,
    "new_process": lookups.new_process,
    "first_touch": lookups.first_touch,
    "commit_one": changes.commit_one,
    "commit_hundred": changes.commit_hundred,
    "diff_hundred": changes.diff_hundred,
    "bulk_sorted": bulk.sorted_stream,
    "bulk_staged": bulk.staged,
    "list_records": listings.records,
    "list_arrow": listings.arrow,
    "start": lookups.start,
    "metaranges": metaranges.metaranges,
    "hourly": histories.hourly,
    "tables": histories.tables,
    "seeds": seeds.seeds,
    "pack": packing.pack,
    "statements": statements.statements,
    "many_files": many_files,
    "wall": wall,
    "contention": contention,
    **ON_SPARK,
}


def measured(name: str, place: Place) -> tuple[list[Result], list[Plot]]:
    """Run one row in a separate process; a row that fails is a result that does not hold."""
    print(f"== {name}", flush=True)
    with tempfile.TemporaryDirectory(
        prefix="graveler-scale-", ignore_cleanup_errors=True
    ) as folder:
        try:
            results, plots = in_child(_row, name, replace(place, scratch=Path(folder)))
        except ChildError as error:
            print(error, file=sys.stderr)
            first = str(error).partition("\n")[0].replace("|", "/")[:_LONGEST]
            return [Result(f"row `{name}`", "fails", "runs", holds=False, details=first)], []
    return results, plots


def _row(name: str, place: Place) -> tuple[list[Result], list[Plot]]:
    return ROWS[name](place), place.plots
