"""Stores over a folder of a cache, its files, and a range too large for its writer's local form."""

from pathlib import Path

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.model import RangeInfo
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ObjectStore
from tests.committed.trees import WHOLE, Forest, record

MIB = 1 << 20
MANY = [record(f"k{number:04d}") for number in range(5_000)]
"""More records than a writer puts into a local form."""


def store_over(
    objects: ObjectStore | None, folder: Path | None = None, bound: int = MIB
) -> RangeStore:
    """Return a store with a cache of its own; without objects, all must come from the cache."""
    return RangeStore(objects or MemoryStore(), RangeCache(folder, bound))


def one_range(line: str = "a b c") -> tuple[ObjectStore, RangeInfo]:
    """Return a tree of one range in memory."""
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree(line))
    return forest.objects, info


def pairs(count: int) -> str:
    """Return a tree of so many ranges of two records each."""
    return " | ".join(f"k{n:03d}a k{n:03d}b" for n in range(count))


def range_of_many(store: RangeStore, text: str = "1") -> bytes:
    records = [record(key.decode(), text) for key, _, _ in MANY]
    tree = apply(store, EMPTY_METARANGE, records, WHOLE).metarange
    (info,) = metarange.read(store, tree)
    return info.id


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
