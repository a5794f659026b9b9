"""Writing a frame of any library as files of a table."""

from typing import Any

from graveler.base.arguments import PathText, path_text
from graveler.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from graveler.frames.libraries import full_name, library_of
from graveler.frames.library import MODES, PARQUET, TYPE, Mode, ParquetLibrary
from graveler.frames.parquet import SUFFIX
from graveler.model import Entry
from graveler.reads.ports import Target

_FILE = "data"
_OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".orc", ".avro", ".xlsx")


def write(
    target: Target, frame: Any, path: PathText, *, mode: Mode = "append", **options: Any
) -> list[Entry]:
    """Write a frame as files at `path` and stage them on `target`; the caller commits.

    A frame in memory becomes one Parquet file: the file at `path` if the path ends with ``.parquet``,
    else a file in the folder. A Spark frame becomes the files that Spark writes into the folder,
    see ``graveler.spark.write``.

    Args:
        target: A branch, run or step.
        frame: A frame of pandas, polars, pyarrow or Spark.
        path: The table's folder, or a Parquet file.
        mode: ``append`` adds files. ``overwrite`` replaces the existing files of the folder. ``error``
            refuses a folder with files.
        **options: For a Spark frame, the other arguments of ``graveler.spark.write``.

    Returns:
        The entries of the written files, in byte order of their paths.

    Raises:
        AlreadyExistsError: The mode is ``error`` and `path` has files, or the mode is ``append`` and
            `path` is a file.
        InvalidInputError: `frame` is not a frame, Parquet cannot hold it, `path` names another format,
            or an argument is for Spark frames.
        MissingDependencyError: A package that the frame needs is not installed.
    """
    path = path_text(path, "path")
    library = library_of(type(frame))
    if library is None:
        raise InvalidInputError(
            f"{path}: {full_name(type(frame))} is not a frame of pandas, polars, pyarrow or Spark: "
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
    if path.endswith(_OTHER_FORMATS):
        raise InvalidInputError(
            f"{path}: a frame of {library.name} becomes a Parquet file: give a folder or a path that "
            f"ends with {SUFFIX}, or `put` the bytes that {library.name} writes in another format"
        )
    file, replaced = _place(target, path, mode)
    with library.parquet(frame) as local:
        entry = target.put(file, local, content_type=PARQUET, metadata={TYPE: library.name})
    target.delete_many(replaced)
    return [entry]


def _place(target: Target, path: str, mode: Mode) -> tuple[str, list[str]]:
    """Return the path of the file to write, and the paths of the files that it replaces."""
    if path.endswith(SUFFIX):
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
