"""RocksDB tables: sorted, immutable files of keys and values. The layer below ranges.

``TableWriter`` writes with RocksDB itself, then rewrites the end of the file so that equal records
give equal bytes. ``TableReader`` is graveler's own, because no library has one. It validates
everything that it reads. ``docs/formats/table.md`` describes the format.
"""

from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.sstable.reader import TableReader as TableReader
    from graveler.sstable.writer import TableWriter as TableWriter

# cramjam, xxhash and rocksdict are imported with the first table, not with graveler
__getattr__, __dir__, __all__ = lazy_names(__name__)
