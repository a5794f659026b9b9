"""Metrics and spans by the API of OpenTelemetry, which a program that wants them has imported.

In a program that has not, a report is one lookup in `sys.modules`. The stores that are opened while a
meter provider is set are measured. All other metrics are reported at any time.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as once
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.trace import Tracer

T = TypeVar("T")
Attributes = Mapping[str, str | int | bool]

_METRICS = "opentelemetry.metrics"
_TRACE = "opentelemetry.trace"
_SCOPE = "graveler"
_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
_SEMANTIC_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
_END: Any = object()


class Metric(NamedTuple):
    """A metric, as listed in the guide."""

    kind: Literal["counter", "histogram", "observable counter"]
    unit: str
    attributes: tuple[str, ...]
    what: str
    bounds: tuple[float, ...] = _SECONDS


KV_CALLS = "db.client.operation.duration"
KV_BYTES = "graveler.kv.io"
OBJECT_CALLS = "graveler.objects.operation.duration"
OBJECT_BYTES = "graveler.objects.io"
CACHE_LOOKUPS = "graveler.cache.lookups"
CACHE_EVICTIONS = "graveler.cache.evictions"
RETRIES = "graveler.retries"
RACES = "graveler.races.lost"
GATES = "graveler.gate.duration"
TURNS = "graveler.turn.wait_time"

_KV = ("db.system.name", "db.operation.name")
_OBJECTS = ("graveler.objects.driver", "graveler.operation.name")
_IO = "graveler.io.direction"
_ERROR = "error.type"

METRICS = {
    KV_CALLS: Metric(
        "histogram", "s", (*_KV, _ERROR), "calls of the key-value store", _SEMANTIC_SECONDS
    ),
    KV_BYTES: Metric("counter", "By", (*_KV, _IO), "values read and written"),
    OBJECT_CALLS: Metric("histogram", "s", (*_OBJECTS, _ERROR), "calls of the object store"),
    OBJECT_BYTES: Metric("counter", "By", (*_OBJECTS, _IO), "bytes of objects read and written"),
    CACHE_LOOKUPS: Metric(
        "observable counter",
        "{lookup}",
        ("graveler.cache.result",),
        "tables requested from the cache: found in `memory`, on `disk`, or a `miss`",
    ),
    CACHE_EVICTIONS: Metric(
        "observable counter",
        "{table}",
        ("graveler.cache.tier",),
        "tables removed from `memory` or `disk` to make room",
    ),
    RETRIES: Metric("counter", "{retry}", (_ERROR,), "calls repeated after a failure"),
    RACES: Metric("counter", "{race}", (), "compare-and-sets lost to another writer"),
    GATES: Metric(
        "histogram",
        "s",
        ("graveler.gate.name", "graveler.gate.result"),
        "runs of gates: `passed`, `warned`, `refused` or `failed`",
    ),
    TURNS: Metric(
        "histogram",
        "s",
        ("graveler.turn.held",),
        "waits for a turn at a branch; `false` if the turn did not come in time",
    ),
}

SPAN_ATTRIBUTES = (
    "vcs.repository.name",
    "vcs.ref.head.name",
    "vcs.ref.head.revision",
    "vcs.ref.base.name",
    "graveler.run.key",
    "graveler.commit.id",
    "graveler.result",
    "graveler.ranges.read",
    "graveler.ranges.written",
    _ERROR,
)
COMMIT = "graveler.commit"
MERGE = "graveler.merge"
PUBLISH = "graveler.publish"
SPANS = {
    COMMIT: "a commit of the writes staged on a branch",
    MERGE: "a merge into a branch",
    PUBLISH: "a publish of a run or of an ingestion, including its gates",
}


@dataclass(slots=True)
class CacheCounts:
    """Counts of the caches of this process. They are read when metrics are collected."""

    memory: int = 0
    disk: int = 0
    misses: int = 0
    evicted_from_memory: int = 0
    evicted_from_disk: int = 0

    def reset(self) -> None:
        """Start at 0 in a forked child, because the parent reports the earlier counts."""
        self.memory = self.disk = self.misses = 0
        self.evicted_from_memory = self.evicted_from_disk = 0

    def lookups(self, _: "CallbackOptions") -> "list[Observation]":
        """Return the points of the lookups."""
        counts = {"memory": self.memory, "disk": self.disk, "miss": self.misses}
        return _points("graveler.cache.result", counts)

    def evictions(self, _: "CallbackOptions") -> "list[Observation]":
        """Return the points of the evictions."""
        counts = {"memory": self.evicted_from_memory, "disk": self.evicted_from_disk}
        return _points("graveler.cache.tier", counts)


def _points(attribute: str, counts: Mapping[str, int]) -> "list[Observation]":
    from opentelemetry.metrics import Observation

    return [Observation(count, {attribute: value}) for value, count in counts.items()]


cache = CacheCounts()
"""The counts of this process."""

os.register_at_fork(after_in_child=cache.reset)


@once
def instruments() -> dict[str, Callable[..., None]]:
    """Make the instruments; those made before a provider is set report to it, too."""
    from importlib.metadata import version

    from opentelemetry.metrics import get_meter_provider

    meter = get_meter_provider().get_meter(_SCOPE, version(_SCOPE))
    reports: dict[str, Callable[..., None]] = {}
    for name, (kind, unit, _, what, bounds) in METRICS.items():
        if kind == "counter":
            reports[name] = meter.create_counter(name, unit, what).add
        elif kind == "histogram":
            reports[name] = meter.create_histogram(
                name, unit, what, explicit_bucket_boundaries_advisory=bounds
            ).record
    for name, observe in ((CACHE_LOOKUPS, cache.lookups), (CACHE_EVICTIONS, cache.evictions)):
        metric = METRICS[name]
        meter.create_observable_counter(name, [observe], metric.unit, metric.what)
    return reports


@once
def tracer() -> "Tracer":
    """Make the tracer; one made before a provider is set reports to it, too."""
    from importlib.metadata import version

    from opentelemetry.trace import get_tracer

    return get_tracer(_SCOPE, version(_SCOPE))


def is_metered() -> bool:
    """Return whether the program has set a meter provider."""
    if _METRICS not in sys.modules:
        return False
    from opentelemetry.metrics import get_meter_provider

    instruments()  # the counts of the caches are reported from now on
    return not type(get_meter_provider()).__module__.startswith(_METRICS)


def report(metric: str, value: float = 1, attributes: Attributes | None = None) -> None:
    """Add to a counter or record in a histogram."""
    if _METRICS in sys.modules:
        instruments()[metric](value, attributes)


@contextmanager
def span(name: str, attributes: Attributes) -> Iterator[Callable[[Attributes], object]]:
    """Record the block as a span. The block gets a function that adds attributes.

    An error that ends the block is recorded, with the status of the span.
    """
    if _TRACE not in sys.modules:
        yield lambda _: None
        return
    with tracer().start_as_current_span(name, attributes=attributes) as current:
        try:
            yield current.set_attributes
        except BaseException as error:
            current.set_attribute(_ERROR, type(error).__name__)
            raise


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one store: their durations, and the bytes that they transfer."""

    calls: str
    moved: str
    driver: tuple[str, str]
    operation: str

    def of(self, operation: str) -> "Call":
        """Return the measure of one call, as a context manager."""
        return Call(self, operation)


@dataclass(slots=True)
class Call:
    """One call of a store, measured while the block runs."""

    calls: Calls
    operation: str
    read: int = 0
    written: int = 0
    seconds: float = 0.0
    _began: float = 0.0

    def __enter__(self) -> "Call":
        self._began = perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.seconds += perf_counter() - self._began
        self.end(kind)

    def over(self, items: Iterator[T], size: Callable[[T], int]) -> Iterator[T]:
        """Yield the items as one call. The time of their consumer does not count."""
        kind: type[BaseException] | None = None
        try:
            while True:
                began = perf_counter()
                try:
                    item = next(items, _END)
                except BaseException as error:
                    kind = type(error)
                    raise
                finally:
                    self.seconds += perf_counter() - began
                if item is _END:
                    return
                self.read += size(item)
                yield item
        finally:
            self.end(kind)

    def end(self, error: type[BaseException] | None = None) -> None:
        """Report the call, which `error` may have ended."""
        calls = self.calls
        own = {calls.driver[0]: calls.driver[1], calls.operation: self.operation}
        failed = own if error is None else {**own, _ERROR: error.__name__}
        report(calls.calls, self.seconds, failed)
        for direction, count in (("read", self.read), ("write", self.written)):
            if count:
                report(calls.moved, count, {**own, _IO: direction})
