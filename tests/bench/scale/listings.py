"""Rows of whole listings, as records and as Arrow."""

import time
from pathlib import Path
from statistics import median
from typing import Any

import graveler
from tests.bench.measure import Result, progress
from tests.bench.scale.children import Memory, in_child, with_memory
from tests.bench.scale.place import REPOSITORY, Place
from tests.bench.scale.table import at_least, at_most


def records(place: Place) -> list[Result]:
    """List all entries, one after the other."""
    progress("a listing as records")
    found = [in_child(_records, place.lake()) for _ in range(place.repeats)]
    return [
        _rate(place, "as records", 600_000, found),
        at_most(
            "memory of the same process, its peak",
            median(memory.resident for _, _, memory in found),
            200,
            " MiB",
            f"of which {median(memory.own for _, _, memory in found):.0f} MiB belong to no file; "
            "the interpreter and the libraries included",
        ),
    ]


def _records(lake: Path) -> tuple[int, float, Memory]:
    with graveler.open(lake) as opened:
        view = opened.repository(REPOSITORY).ref("main")
        began = time.perf_counter()
        count, memory = with_memory(lambda: sum(1 for _ in view.list()))
        return count, time.perf_counter() - began, memory


def arrow(place: Place) -> list[Result]:
    """Read all entries as batches of Arrow columns."""
    progress("a listing as Arrow")
    found = [in_child(_arrow, place.lake()) for _ in range(place.repeats)]
    return [_rate(place, "as Arrow", 3_000_000, found, "; the first batch loads libraries before")]


def _arrow(lake: Path) -> tuple[int, float, Memory]:
    with graveler.open(lake) as opened:
        view: Any = opened.repository(REPOSITORY).ref("main")
        next(iter(view.listing("")))  # numpy and pyarrow are loaded
        began = time.perf_counter()
        count, memory = with_memory(lambda: sum(batch.num_rows for batch in view.listing("")))
        return count, time.perf_counter() - began, memory


def _rate(
    place: Place, how: str, limit: float, found: list[tuple[int, float, Memory]], note: str = ""
) -> Result:
    counts = {count for count, _, _ in found}
    assert counts == {place.entries}, f"the listing has {counts} entries, not {place.entries}"
    return at_least(
        f"listing of {place.entries:,} entries {how}",
        place.entries / median(seconds for _, seconds, _ in found),
        limit,
        "/s",
        f"median of {len(found)} new processes; peak of memory "
        f"{median(memory.resident for _, _, memory in found):.0f} MiB{note}",
    )
