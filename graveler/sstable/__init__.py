"""RocksDB tables: sorted, immutable files of keys and values. The floor below ranges.

``TableWriter`` writes with RocksDB itself and then makes the bytes a function of the
records alone; ``TableReader`` is our own, because no library offers one, and trusts
nothing that it reads. ``docs/formats/table.md`` is the format.
"""

from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.sstable.reader import TableReader as TableReader
    from graveler.sstable.writer import TableWriter as TableWriter

# cramjam, xxhash and rocksdict load when the first table is touched, not with graveler
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {"graveler.sstable.reader": ("TableReader",), "graveler.sstable.writer": ("TableWriter",)},
)
