"""RocksDB tables: sorted, immutable files of keys and values. The floor below ranges.

``TableWriter`` writes with RocksDB itself and then makes the bytes a function of the
records alone; ``TableReader`` is our own, because no library offers one, and trusts
nothing that it reads. ``docs/formats/table.md`` is the format.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graveler.sstable.reader import TableReader
    from graveler.sstable.writer import TableWriter

__all__ = ["TableReader", "TableWriter"]


def __getattr__(name: str) -> object:
    # cramjam, xxhash and rocksdict load when the first table is touched, not with graveler
    if name == "TableReader":
        from graveler.sstable.reader import TableReader  # noqa: PLC0415

        return TableReader
    if name == "TableWriter":
        from graveler.sstable.writer import TableWriter  # noqa: PLC0415

        return TableWriter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
