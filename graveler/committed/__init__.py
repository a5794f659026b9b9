"""Committed trees: ranges and metaranges, and how they are built, compared and merged."""

from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.committed.apply import Applied as Applied
    from graveler.committed.apply import StagedChange as StagedChange
    from graveler.committed.apply import keeping as keeping
    from graveler.committed.apply import reapply as reapply
    from graveler.committed.bases import CONFLICT as CONFLICT
    from graveler.committed.bases import LEVELS as LEVELS
    from graveler.committed.bases import Base as Base
    from graveler.committed.bases import Bases as Bases
    from graveler.committed.bases import BaseValues as BaseValues
    from graveler.committed.bases import Unresolved as Unresolved
    from graveler.committed.diff import RawChange as RawChange
    from graveler.committed.diff import differing_spans as differing_spans
    from graveler.committed.diff import same_records as same_records
    from graveler.committed.merge import Earlier as Earlier
    from graveler.committed.merge import Merged as Merged
    from graveler.committed.merge import RawConflict as RawConflict
    from graveler.committed.merge import Resolve as Resolve
    from graveler.committed.merge import Whole as Whole
    from graveler.committed.merge import merge_changes as merge_changes
    from graveler.committed.metarange import EMPTY_METARANGE as EMPTY_METARANGE
    from graveler.committed.metarange import get as get
    from graveler.committed.metarange import scan as scan
    from graveler.committed.pack import Backlog as Backlog
    from graveler.committed.pack import Packed as Packed
    from graveler.committed.pack import Packer as Packer
    from graveler.committed.pack import backlog as backlog
    from graveler.committed.pack import badly_cut as badly_cut
    from graveler.committed.range_cache import RangeCache as RangeCache
    from graveler.committed.range_store import RangeStore as RangeStore
    from graveler.committed.range_store import Rescue as Rescue
    from graveler.committed.range_store import StoreStats as StoreStats
    from graveler.committed.range_writer import RangeWriter as RangeWriter
    from graveler.committed.splitting import Splitting as Splitting
    from graveler.committed.splitting import changed as changed
    from graveler.committed.splitting import initial as initial
    from graveler.committed.verify import Problem as Problem
    from graveler.committed.verify import verify_metarange as verify_metarange
    from graveler.committed.verify import verify_range as verify_range
    from graveler.committed.verify import verify_tree as verify_tree

__getattr__, __dir__, __all__ = lazy_names(__name__)
