"""Reading a table as a frame of the type that the caller names."""

from typing import TYPE_CHECKING, Any

from graveler.base.arguments import PathText, flag, prefix_text
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames.libraries import SPARK, full_name, library_named, library_of
from graveler.frames.library import FrameLibrary, ParquetLibrary
from graveler.frames.parquet import SUFFIX, read_arrow
from graveler.reads.partitions import table_entries
from graveler.reads.ports import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 3


def read(
    view: View,
    path: PathText,
    as_: type | str = SPARK,
    *,
    spark: "SparkSession | None" = None,
    nested: bool = True,
    **options: Any,
) -> Any:
    """Return the table at `path` as a frame; any library may have written it.

    Frames in memory have the rows of all Parquet files at or below `path`. ``key=value`` folders
    become columns. A Spark frame may have files of other formats, see ``graveler.spark.read``.

    Args:
        view: A ref, branch, run, step or candidate.
        path: A file, or a folder.
        as_: The type of the frame: ``pandas.DataFrame``, ``polars.DataFrame``,
            ``polars.LazyFrame``, ``pyarrow.Table``, ``pyarrow.RecordBatchReader`` or
            ``pyspark.sql.DataFrame``; or ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"spark"``.
        spark: The session of a Spark frame, classic or of Spark Connect.
        nested: Whether to read the files in all folders below `path`. False reads those in the folder
            itself and in its ``key=value`` folders.
        **options: For a Spark frame, the other arguments of ``graveler.spark.read``.

    Raises:
        InvalidInputError: There are no frames of this type, or an argument is for Spark frames.
        MissingDependencyError: A package that the frame needs is not installed.
        ObjectNotFoundError: There is no Parquet file.
    """
    library = _library(as_)
    if not isinstance(library, ParquetLibrary):
        from graveler.frames.spark.reader import read as read_by_spark

        return read_by_spark(view, path, spark=spark, nested=nested, **options)
    given = sorted(options) if spark is None else ["spark", *sorted(options)]
    if given:
        raise InvalidInputError(
            f"{', '.join(given)}: of Spark frames only, and this one is of {library.name}; to read "
            f"other formats than Parquet, give `open(path)` to a reader of {library.name}"
        )
    path = prefix_text(path, "path")
    entries = table_entries(view, path, nested=flag(nested, "nested"))
    files = [(relative, entry) for relative, entry in entries if entry.path.endswith(SUFFIX)]
    if not files:
        raise nothing_at(path, [entry.path for _, entry in entries])
    return library.from_arrow(read_arrow(view, files), as_ if isinstance(as_, type) else object)


def _library(as_: Any) -> FrameLibrary:
    if isinstance(as_, str):
        return library_named(as_)
    library = library_of(as_) if isinstance(as_, type) else None
    if library is None:
        raise InvalidInputError(
            f"as_={full_name(as_)}: not a type of frames: give one of pandas, polars, pyarrow or "
            "Spark, such as pandas.DataFrame"
        )
    return library


def nothing_at(path: str, names: list[str]) -> ObjectNotFoundError:
    """Return the error for a table without Parquet files."""
    others = (
        f"only {', '.join(names[:_SHOWN])}: `open(path)` reads a file of any format"
        if names
        else "nor any other file: write it first"
    )
    return ObjectNotFoundError(f"no Parquet file at {path!r}, {others}")
