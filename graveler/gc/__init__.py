"""What nobody can reach any more, and what somebody needs but is not there."""

from graveler.gc.collector import GRACE, WINDOW, GarbageCollector
from graveler.gc.fsck import fsck
from graveler.gc.marks import Mark, MarkState
from graveler.gc.report import FsckReport, Problem, ProblemKind
from graveler.gc.rules import Keep, Retention

__all__ = [
    "GRACE",
    "WINDOW",
    "FsckReport",
    "GarbageCollector",
    "Keep",
    "Mark",
    "MarkState",
    "Problem",
    "ProblemKind",
    "Retention",
    "fsck",
]
