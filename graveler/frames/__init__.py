"""Frames of pandas, polars, pyarrow and Spark: one pair of functions to read and to write them.

Frames in memory are Parquet files that their library writes; Spark reads and writes files itself.
No library is imported before a frame of it is read or written.
"""

from graveler.frames.libraries import library_named, library_of
from graveler.frames.library import TYPE, FrameLibrary, ParquetLibrary
from graveler.frames.reader import read
from graveler.frames.writer import write

__all__ = [
    "TYPE",
    "FrameLibrary",
    "ParquetLibrary",
    "library_named",
    "library_of",
    "read",
    "write",
]
