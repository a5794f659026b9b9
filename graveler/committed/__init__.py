"""Committed trees: ranges and metaranges, and how they are built, compared and merged."""

from graveler.committed.apply import Applied, StagedChange, apply, keeping, reapply
from graveler.committed.bases import CONFLICT, LEVELS, Base, Bases, BaseValues, Unresolved
from graveler.committed.diff import RawChange, diff, differing_spans, same_records
from graveler.committed.merge import (
    Earlier,
    Merged,
    RawConflict,
    Resolve,
    merge,
    merge_changes,
)
from graveler.committed.metarange import EMPTY_METARANGE, get, scan
from graveler.committed.pack import Backlog, Packed, Packer, backlog, badly_cut
from graveler.committed.range_store import RangeCache, RangeStore, Rescue, StoreStats
from graveler.committed.range_writer import RangeWriter
from graveler.committed.splitting import Splitting, changed, initial
from graveler.committed.verify import Problem, verify_metarange, verify_range, verify_tree

__all__ = [
    "CONFLICT",
    "EMPTY_METARANGE",
    "LEVELS",
    "Applied",
    "Backlog",
    "Base",
    "BaseValues",
    "Bases",
    "Earlier",
    "Merged",
    "Packed",
    "Packer",
    "Problem",
    "RangeCache",
    "RangeStore",
    "RangeWriter",
    "RawChange",
    "RawConflict",
    "Rescue",
    "Resolve",
    "Splitting",
    "StagedChange",
    "StoreStats",
    "Unresolved",
    "apply",
    "backlog",
    "badly_cut",
    "changed",
    "diff",
    "differing_spans",
    "get",
    "initial",
    "keeping",
    "merge",
    "merge_changes",
    "reapply",
    "same_records",
    "scan",
    "verify_metarange",
    "verify_range",
    "verify_tree",
]
