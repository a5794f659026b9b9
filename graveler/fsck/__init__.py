"""The check of everything that the refs of a repository need."""

from graveler.fsck.check import fsck
from graveler.fsck.report import FsckReport, Problem, ProblemKind

__all__ = ["FsckReport", "Problem", "ProblemKind", "fsck"]
