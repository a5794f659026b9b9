"""Garbage collection: retention rules, marks and sweeps."""

from graveler.gc.collector import GarbageCollector
from graveler.gc.marks import Mark, MarkState
from graveler.gc.rules import Keep, Retention

__all__ = ["GarbageCollector", "Keep", "Mark", "MarkState", "Retention"]
