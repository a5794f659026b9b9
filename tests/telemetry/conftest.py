from types import SimpleNamespace

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from graveler.base import telemetry


class Collected:
    """The metrics and spans that the code under test reports."""

    def __init__(self, reader, exporter):
        self._reader = reader
        self._exporter = exporter

    def metrics(self):
        """Return the metrics by name, with all their points."""
        data = self._reader.get_metrics_data()
        scopes = [] if data is None else data.resource_metrics[0].scope_metrics
        return {
            metric.name: SimpleNamespace(unit=metric.unit, points=list(metric.data.data_points))
            for scope in scopes
            for metric in scope.metrics
        }

    def sums(self, name):
        """Return, by attributes, the value of each point of a counter, or a histogram's count."""
        points = self.metrics()[name].points
        return {
            frozenset(point.attributes.items()): getattr(point, "value", None) or point.count
            for point in points
            if getattr(point, "value", None) != 0
        }

    def spans(self):
        """Return the names of the finished spans, with their attributes."""
        return [(span.name, dict(span.attributes)) for span in self._exporter.get_finished_spans()]

    def failed(self):
        """Return the names of the spans that ended in an error."""
        finished = self._exporter.get_finished_spans()
        return [span.name for span in finished if span.status.status_code is trace.StatusCode.ERROR]


def _forget():
    """Let the code under test ask for the providers again."""
    telemetry.instruments.cache_clear()
    telemetry.tracer.cache_clear()


@pytest.fixture
def collected(monkeypatch):
    """Set providers that collect in memory, for the test."""
    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    meters, tracers = MeterProvider([reader], shutdown_on_exit=False), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracers)
    _forget()
    yield Collected(reader, exporter)
    _forget()
    meters.shutdown()
    tracers.shutdown()
