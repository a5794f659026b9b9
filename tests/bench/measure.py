"""The result of a benchmark, and the clocks that measure it."""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Result:
    """One line of a table.

    Attributes:
        name: What was measured.
        figure: The value, with its unit.
        limit: The limit that judges the value; empty if it is only reported.
        holds: Whether the value is within the limit.
        details: The numbers behind the value.
    """

    name: str
    figure: str
    limit: str
    holds: bool
    details: str = ""


def reported(name: str, figure: str, details: str = "") -> Result:
    """Return a result that is not judged: seconds, or a rate."""
    return Result(name, figure, "", holds=True, details=details)


def at_most(name: str, ratio: float, limit: float, reference: str, details: str = "") -> Result:
    """Return a ratio to a reference of the same run, judged by an upper limit."""
    figure = f"{ratio:.2f} of {reference}"
    return Result(name, figure, f"at most {limit:g}", ratio <= limit, details)


def at_least(name: str, ratio: float, limit: float, reference: str, details: str = "") -> Result:
    """Return a ratio to a reference of the same run, judged by a lower limit."""
    figure = f"{ratio:.2f} of {reference}"
    return Result(name, figure, f"at least {limit:g}", ratio >= limit, details)


def progress(text: str) -> None:
    """Print the name of the next measurement."""
    print(f"   {text}", flush=True)


def ms(seconds: float) -> str:
    """Return seconds as milliseconds, for a table."""
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms"


def timed(call: Callable[[], object]) -> float:
    """Return the seconds of a long call, after a garbage collection."""
    gc.collect()
    gc.freeze()  # the benchmark's own objects are not the measured code's garbage to search
    return clocked(call)


def clocked(call: Callable[[], object]) -> float:
    """Return the seconds of one short call among thousands, including pauses."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return the least of `seconds` that `share` of them (0.99, say) do not exceed."""
    return sorted(seconds)[max(0, math.ceil(len(seconds) * share) - 1)]


def alternate(
    left: Callable[[], object], right: Callable[[], object], times: int
) -> tuple[float, float]:
    """Return the median seconds of both calls, made in turns so that both meet the same noise."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        seconds[0].append(timed(left))
        seconds[1].append(timed(right))
    return median(seconds[0]), median(seconds[1])
