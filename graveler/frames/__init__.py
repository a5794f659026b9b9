"""Frames of pandas, polars, pyarrow and Spark: one function reads them, and one writes them.

Frames in memory are stored as Parquet files that their library writes. Spark reads and writes files
itself. A library is imported only when one of its frames is read or written.
"""

from graveler.frames.reader import read as read
from graveler.frames.writer import write as write
