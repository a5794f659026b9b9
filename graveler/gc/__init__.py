"""What nobody can reach any more, and what somebody needs but is not there."""

from graveler.gc.fsck import fsck
from graveler.gc.report import FsckReport, Problem, ProblemKind

__all__ = ["FsckReport", "Problem", "ProblemKind", "fsck"]
