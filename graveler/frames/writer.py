"""Writing a frame of any library as files of a table."""

from typing import Any

from graveler.base.arguments import PathText, path_text
from graveler.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from graveler.frames.formats import FORMATS, PARQUET, SUFFIX, format_of
from graveler.frames.libraries import full_name, library_of
from graveler.frames.library import MODES, TYPE, Mode, ParquetLibrary
from graveler.model import Entry
from graveler.reads.ports import Target

_FILE = "data"
_OTHER_FORMATS = (".tsv", ".orc", ".avro", ".xlsx")


def write(
    target: Target, frame: Any, path: PathText, *, mode: Mode = "append", **options: Any
) -> list[Entry]:
    """Write a frame as files at `path` and stage them on `target`, as the ``write`` of a branch does.

    Args:
        target: A branch, run or step.
        frame: A frame of pandas, polars, pyarrow, DuckDB or Spark.
        path: The table's folder, or a file.
        **options: For a Spark frame, the other arguments of ``graveler.spark.write``.
    """
    path = path_text(path, "path")
    library = library_of(type(frame))
    if library is None:
        raise InvalidInputError(
            f"{path}: {full_name(type(frame))} is not a frame of pandas, polars, pyarrow, DuckDB or Spark: "
            "make one of it, or `put` bytes or a file"
        )
    if not isinstance(library, ParquetLibrary):
        from graveler.frames.spark.writer import write as write_by_spark

        return write_by_spark(target, frame, path, mode=mode, **options)
    if mode not in MODES:
        raise InvalidInputError(f"mode {mode!r}: choose one of {', '.join(MODES)}")
    if options:
        raise InvalidInputError(
            f"{path}: {', '.join(sorted(options))}: of Spark frames only, and this one is of "
            f"{library.name}"
        )
    format = format_of(path)
    if (format is None and path.endswith(_OTHER_FORMATS)) or path.endswith(".gz"):
        raise InvalidInputError(
            f"{path}: a frame of {library.name} becomes a file whose name ends with "
            f"{', '.join(each.suffixes[0] for each in FORMATS.values())}, or a Parquet file in a folder"
        )
    file, replaced = _place(target, path, mode, is_file=format is not None)
    format = format or PARQUET
    with library.file(frame, format) as local:
        kind, marks = FORMATS[format].media_type, {TYPE: library.name}
        entry = target.put(file, local, content_type=kind, metadata=marks)
    target.delete_many(replaced)
    return [entry]


def _place(target: Target, path: str, mode: Mode, *, is_file: bool) -> tuple[str, list[str]]:
    """Return the path of the file to write, and the paths of the files that it replaces."""
    if is_file:
        if mode != "overwrite" and _exists(target, path):
            raise AlreadyExistsError(
                f"{path!r} exists already: write with mode 'overwrite', or into a folder, whose "
                "path ends with '/'"
            )
        return path, []
    folder = f"{path.rstrip('/')}/"
    if mode == "append":
        name = target.new_address().rpartition("/")[2]
        return f"{folder}{_FILE}-{name}{SUFFIX}", []
    paths = [entry.path for entry in target._unrecorded.entries(folder)]
    if paths and mode == "error":
        raise AlreadyExistsError(
            f"{paths[0]!r} exists already: write with mode 'append' or 'overwrite'"
        )
    file = f"{folder}{_FILE}{SUFFIX}"
    return file, [path for path in paths if path != file]


def _exists(target: Target, path: str) -> bool:
    try:
        target._unrecorded.stat(path)
    except ObjectNotFoundError:
        return False
    return True
