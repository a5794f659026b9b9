"""What nobody can reach any more, and what somebody needs but is not there."""

from graveler.gc.collector import GRACE, WINDOW, GarbageCollector
from graveler.gc.fsck import fsck
from graveler.gc.marks import Kind, Mark, MarkState, Tally
from graveler.gc.report import FsckReport, Problem, ProblemKind
from graveler.gc.rescue import Rescuer
from graveler.gc.rules import Keep, Retention

__all__ = [
    "GRACE",
    "WINDOW",
    "FsckReport",
    "GarbageCollector",
    "Keep",
    "Kind",
    "Mark",
    "MarkState",
    "Problem",
    "ProblemKind",
    "Rescuer",
    "Retention",
    "Tally",
    "fsck",
]
