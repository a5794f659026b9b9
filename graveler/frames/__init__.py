"""Frames of pandas, polars, pyarrow, DuckDB and Spark, which are read, scanned and written alike.

Frames in memory are stored as files of Parquet, CSV, JSON lines or Arrow. Spark reads and writes files
itself. A library is imported only when one of its frames is read or written.
"""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.frames.reader import read as read
    from graveler.frames.reader import scan as scan
    from graveler.frames.writer import write as write

__getattr__, __dir__, __all__ = lazy_names(__name__)
