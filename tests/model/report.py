"""Runs histories in two processes, and prints what became of each kind of operation."""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from time import perf_counter

from tests.model.adapter import Product
from tests.model.driver import Checked, check, check_seed
from tests.model.processes import Processes
from tests.model.shrinking import shrunk

_BLOCK = 10
_LEAST = 0.6
"""The part of the attempts of each kind that must succeed, in histories of every kind together."""


def checked(
    first: int, count: int, *, every_gc: bool, processes: bool, deadline: float
) -> list[tuple[int, Checked]]:
    """Check seeds until the deadline by `perf_counter`; a violation names the shrunk history."""
    logging.disable(logging.CRITICAL)
    subject = Processes if processes else Product
    results = []
    for seed in range(first, first + count):
        if perf_counter() >= deadline:
            break
        result, operations = check_seed(seed, every_gc=every_gc, subject=subject)
        if result.violation:
            fails = partial(check, every_gc=every_gc, subject=subject)
            if processes:  # its races and kills do not repeat
                kept, violation = operations[: result.at], result.violation
            else:
                kept, violation = shrunk(operations[: result.at], fails)
            lines = [f"seed {seed}: {violation}", *map(str, kept)]
            result.violation = "\n    ".join(lines)
        results.append((seed, result))
    return results


class Report:
    """Prints results, and counts the failures."""

    def __init__(self) -> None:
        self.wrong = 0

    def histories(
        self,
        first: int,
        count: int,
        *,
        every_gc: bool = False,
        processes: bool = False,
        within: float = float("inf"),
    ) -> None:
        """Check histories of these seeds, as many as fit in `within` seconds."""
        began = perf_counter()
        attempts: Counter[str] = Counter()
        successes: Counter[str] = Counter()
        seconds = 0.0
        work = partial(checked, every_gc=every_gc, processes=processes, deadline=began + within)
        results = self._all(work, first, count)
        count = 0
        for _, result in results:
            count += 1
            attempts += result.attempts
            successes += result.successes
            seconds += result.seconds
            if result.violation:
                self.wrong += 1
                print(f"  WRONG {result.violation}", flush=True)
        mode = " with a collection after each operation" * every_gc + " by processes" * processes
        print(f"{count} histories{mode}, {sum(attempts.values())} operations:")
        for kind in sorted(attempts):
            part = successes[kind] / attempts[kind]
            low = "" if part >= _LEAST else "  LOW"
            print(f"  {kind:16} {attempts[kind]:8} attempts, {part:4.0%} succeed{low}")
        print(
            f"{perf_counter() - began:.0f} s, {seconds / max(count, 1):.2f} s for a history; "
            f"{self.wrong or 'nothing'} wrong"
        )

    def _all(
        self, work: "partial[list[tuple[int, Checked]]]", first: int, count: int
    ) -> Iterator[tuple[int, Checked]]:
        starts = range(first, first + count, _BLOCK)
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            blocks = [
                pool.submit(work, start, min(_BLOCK, first + count - start)) for start in starts
            ]
            for block in blocks:
                yield from block.result()
