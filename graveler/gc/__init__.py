"""Garbage collection: retention rules, marks and sweeps."""

from graveler.gc.collector import GRACE, WINDOW, GarbageCollector
from graveler.gc.files import Rescuer
from graveler.gc.marks import Kind, Mark, MarkState, Tally
from graveler.gc.rules import Keep, Retention

__all__ = [
    "GRACE",
    "WINDOW",
    "GarbageCollector",
    "Keep",
    "Kind",
    "Mark",
    "MarkState",
    "Rescuer",
    "Retention",
    "Tally",
]
