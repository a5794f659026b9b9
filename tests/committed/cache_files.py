"""The files in the folder of a cache, and a range that is too large for its writer's local form."""

from pathlib import Path

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from tests.committed.trees import WHOLE, record

MIB = 1 << 20
MANY = [record(f"k{number:04d}") for number in range(5_000)]
"""More records than a writer puts into a local form."""


def range_of_many(store: RangeStore, text: str = "1") -> bytes:
    records = [record(key.decode(), text) for key, _, _ in MANY]
    tree = apply(store, EMPTY_METARANGE, records, WHOLE).metarange
    (info,) = metarange.read(store, tree)
    return info.id


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
