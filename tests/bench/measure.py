"""What a benchmark gives: a figure, its bound, and whether it holds."""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table.

    Attributes:
        name: What was measured.
        figure: What came out, with its unit.
        bound: What was asked for.
        holds: Whether it was met.
        how: The numbers behind it.
    """

    name: str
    figure: str
    bound: str
    holds: bool
    how: str = ""


def progress(text: str) -> None:
    """Say what is being done."""
    print(f"   {text}", flush=True)


def timed(call: Callable[[], object]) -> float:
    """Return the seconds a call takes, garbage collected before."""
    gc.collect()
    gc.freeze()  # what the benchmark itself holds is not the measured code's garbage to search
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def clocked(call: Callable[[], object]) -> float:
    """Return the seconds of one short call among thousands, as its caller feels them."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return the least of `seconds` that `share` of them (0.99, say) do not exceed."""
    return sorted(seconds)[max(0, math.ceil(len(seconds) * share) - 1)]


def best(call: Callable[[], object], times: int = 3) -> float:
    """Return the least seconds of several calls: what the work costs when nothing disturbs it."""
    return min(timed(call) for _ in range(times))


def alternate(
    left: Callable[[], object], right: Callable[[], object], times: int
) -> tuple[float, float]:
    """Return the median seconds of both calls, made in turns so that both meet the same noise."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        seconds[0].append(timed(left))
        seconds[1].append(timed(right))
    return median(seconds[0]), median(seconds[1])
