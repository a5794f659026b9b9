"""Metrics and spans by the OpenTelemetry API.

graveler does not import OpenTelemetry. It reports to the providers that the program has set.
Without providers, a report is one lookup in `sys.modules`, and stores are not measured.
`graveler.kv` and `graveler.objects` measure the stores that are opened while a meter provider is
set. All other metrics are reported at any time.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as once
from functools import partial
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Attributes = Mapping[str, str | int | bool]

_API = ("opentelemetry.metrics", "opentelemetry.trace")
_SCOPE = "graveler"
_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
_END: Any = object()


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, as listed in the guide.

    Attributes:
        attributes: The names of the attributes of its points.
        bounds: Upper bounds of the buckets of a histogram.
    """

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

METRICS = {
    KV_CALLS: Metric(
        "histogram",
        "s",
        ("db.system.name", "db.operation.name", "error.type"),
        "calls of the key-value store",
        (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0),  # of the semantic conventions
    ),
    KV_BYTES: Metric(
        "counter",
        "By",
        ("db.system.name", "db.operation.name", "graveler.io.direction"),
        "values read and written",
    ),
    OBJECT_CALLS: Metric(
        "histogram",
        "s",
        ("graveler.objects.driver", "graveler.operation.name", "error.type"),
        "calls of the object store",
    ),
    OBJECT_BYTES: Metric(
        "counter",
        "By",
        ("graveler.objects.driver", "graveler.operation.name", "graveler.io.direction"),
        "bytes of objects read and written",
    ),
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
    RETRIES: Metric("counter", "{retry}", ("error.type",), "calls repeated after a failure"),
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
    "error.type",
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

    def points(self, metric: str) -> list[tuple[int, Attributes]]:
        """Return the values of an observable counter, with their attributes."""
        if metric == CACHE_LOOKUPS:
            results = (("memory", self.memory), ("disk", self.disk), ("miss", self.misses))
            return [(count, {"graveler.cache.result": result}) for result, count in results]
        tiers = (("memory", self.evicted_from_memory), ("disk", self.evicted_from_disk))
        return [(count, {"graveler.cache.tier": tier}) for tier, count in tiers]

    def reset(self) -> None:
        """Start at 0 in a forked child, because the parent reports the earlier counts."""
        self.memory = self.disk = self.misses = 0
        self.evicted_from_memory = self.evicted_from_disk = 0


cache = CacheCounts()
"""The counts of this process."""

os.register_at_fork(after_in_child=cache.reset)


@once
def _version() -> str:
    from importlib.metadata import version

    return version(_SCOPE)


class _Instruments:
    """The instruments of one meter provider."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        self._meter = provider.get_meter(_SCOPE, _version())
        self.report: dict[str, Callable[..., None]] = {}
        for name, metric in METRICS.items():
            made = self._make(name, metric)
            if metric.kind == "counter":
                self.report[name] = made.add
            elif metric.kind == "histogram":
                self.report[name] = made.record

    def _make(self, name: str, metric: Metric) -> Any:
        options: dict[str, Any] = {"unit": metric.unit, "description": metric.what}
        if metric.kind == "counter":
            return self._meter.create_counter(name, **options)
        if metric.kind == "histogram":
            options["explicit_bucket_boundaries_advisory"] = metric.bounds
            return self._meter.create_histogram(name, **options)
        return self._meter.create_observable_counter(name, [partial(_observed, name)], **options)


def _observed(metric: str, _options: Any) -> list[Any]:
    make = sys.modules["opentelemetry.metrics"].Observation
    return [make(*point) for point in cache.points(metric)]


_lock = Lock()
_made: _Instruments | None = None


def _provider(api: str, function: str) -> Any | None:
    """Return the provider that the program has set, or None for the API's no-op provider."""
    get = getattr(sys.modules.get(api), function, None)
    if get is None:
        return None
    provider = get()
    return None if type(provider).__module__.startswith(_API) else provider


def _instruments() -> _Instruments | None:
    global _made  # noqa: PLW0603 - the instruments are the process's, as the provider is
    provider = _provider("opentelemetry.metrics", "get_meter_provider")
    if provider is None:
        return None
    with _lock:
        if _made is None or _made.provider is not provider:
            _made = _Instruments(provider)
        return _made


def is_metered() -> bool:
    """Return whether the program has set a meter provider."""
    return _instruments() is not None


def report(metric: str, value: float = 1, attributes: Attributes | None = None) -> None:
    """Add to a counter or record in a histogram. Without a meter provider, do nothing."""
    instruments = _instruments()
    if instruments is not None:
        instruments.report[metric](value, attributes)


@contextmanager
def span(name: str, attributes: Attributes) -> Iterator[Callable[[Attributes], object]]:
    """Record the block as a span. The block gets a function that adds attributes.

    An error that ends the block is recorded, with the status of the span.
    """
    provider = _provider("opentelemetry.trace", "get_tracer_provider")
    if provider is None:
        yield _ignored
        return
    tracer = provider.get_tracer(_SCOPE, _version())
    with tracer.start_as_current_span(name, attributes=attributes) as current:
        try:
            yield current.set_attributes
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            raise


def _ignored(_attributes: Attributes) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one store: their durations, and the bytes that they transfer.

    Attributes:
        moved: The counter of the bytes.
        driver: The attribute that names the driver, with its value.
    """

    calls: str
    moved: str
    driver: tuple[str, str]
    operation: str

    def of(self, operation: str) -> "Call":
        """Return the measure of one call, as a context manager."""
        return Call(self, operation)


class Call:
    """One call of a store, measured while the block runs.

    Attributes:
        read: The number of bytes read, which the caller adds.
        written: The number of bytes written.
    """

    __slots__ = ("_began", "_calls", "_operation", "read", "seconds", "written")

    def __init__(self, calls: Calls, operation: str) -> None:
        self._calls = calls
        self._operation = operation
        self._began = 0.0
        self.seconds = 0.0
        self.read = 0
        self.written = 0

    def __enter__(self) -> "Call":
        self._began = perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
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
        calls = self._calls
        own = {calls.driver[0]: calls.driver[1], calls.operation: self._operation}
        failed = own if error is None else {**own, "error.type": error.__name__}
        report(calls.calls, self.seconds, failed)
        for direction, count in (("read", self.read), ("write", self.written)):
            if count:
                report(calls.moved, count, {**own, "graveler.io.direction": direction})
