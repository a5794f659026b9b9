"""RocksDB tables: sorted, immutable files of keys and values. The layer below ranges.

``TableWriter`` writes with RocksDB itself, then rewrites the end of the file so that equal records
give equal bytes. ``TableReader`` is graveler's own, because no library has one. It validates
everything that it reads. ``docs/formats/table.md`` describes the format.
"""
