"""Reading a table as a frame of the type that the caller names."""

from collections import deque
from collections.abc import Sequence
from datetime import UTC
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graveler.base.arguments import PathText, flag, optional, prefix_text, text, texts
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames.formats import FORMATS, of_one_format
from graveler.frames.libraries import NAMES, SPARK, full_name, library_named, library_of
from graveler.frames.library import FrameLibrary, ParquetLibrary
from graveler.frames.pruning import pruned
from graveler.frames.where import Where, conditions
from graveler.reads.partitions import Files, check_format, table_entries
from graveler.reads.ports import View

if TYPE_CHECKING:
    from graveler.frames.source import Source


def read(view: View, path: PathText, as_: type | str | None = None, **terms: Any) -> Any:
    """Return the table at `path` as a frame; any library may have written it.

    Args:
        view: A ref, branch, run, step or candidate.
        path: A file, or a folder.
        as_: The type of the frame, or the name of its library; by default as `read` of a branch.
        **terms: The other arguments of the ``read`` of a branch; and ``files``, only these files of
            the table, by their paths below it.
    """
    return _frame(view, path, as_, **terms)


def scan(view: View, path: PathText, as_: type | str, **terms: Any) -> Any:
    """Return the table at `path` as a lazy frame; any library may have written it.

    Args:
        view: A ref, branch, run, step or candidate.
        path: A file, or a folder.
        as_: The type of the frame, or the name of its library.
        **terms: The other arguments of the ``scan`` of a branch.
    """
    return _frame(view, path, as_, lazy=True, **terms)


def _frame(
    view: View,
    path: PathText,
    as_: type | str | None,
    *,
    lazy: bool = False,
    files: Files | None = None,
    columns: Sequence[str] = (),
    where: Where | None = None,
    format: str | None = None,
    verify: bool = False,
    nested: bool = True,
    **options: Any,
) -> Any:
    given = sorted(name for name, value in options.items() if value is not None)
    library = _library(_usual(spark=bool(given)) if as_ is None else as_)
    if not isinstance(library, ParquetLibrary):
        from graveler.frames.spark.reader import read as read_by_spark

        options |= {"columns": columns, "where": where, "format": format, "verify": verify}
        return read_by_spark(view, path, files=files, nested=nested, **options)
    if given:
        raise InvalidInputError(
            f"{', '.join(given)}: of Spark frames only, and this one is of {library.name}"
        )
    verify = flag(verify, "verify")
    source = source_of(view, path, files, columns, where, format=format, nested=nested)
    return _framed(source, library, as_, lazy=lazy, verify=verify)


def frame_of(source: "Source", as_: type | str | None, *, lazy: bool) -> Any:
    """Return a source as a frame in memory of the type that the caller names."""
    library = _library(_usual(spark=False) if as_ is None else as_)
    if not isinstance(library, ParquetLibrary):
        raise InvalidInputError(
            f"{source.path!r} is a table of Iceberg, which Spark reads through its catalog: ask Spark for "
            "it, or name another library, such as pandas"
        )
    return _framed(source, library, as_, lazy=lazy, verify=False)


def _framed(
    source: "Source", library: ParquetLibrary, as_: type | str | None, *, lazy: bool, verify: bool
) -> Any:
    kind = as_ if isinstance(as_, type) else object
    if lazy or issubclass(kind, library.lazy) or {*library.lazy} == {*library.types}:
        if not (kind is object or issubclass(kind, library.lazy)):
            raise InvalidInputError(f"as_={full_name(kind)}: not a lazy frame: `read` gives it")
        if verify:
            deque(source.view.get_many(entry for _, entry in source.files), maxlen=0)
        return library.scan(source, kind)
    return library.from_arrow(source.table(verify=verify), kind)


def _usual(*, spark: bool) -> str:
    """Return the library of a read that names none; `spark`: it has arguments of Spark frames."""
    from graveler.frames.spark.session import is_running

    there = (name for name in NAMES if name != SPARK and find_spec(name))
    return SPARK if spark or is_running() else next(there, NAMES[1])


def source_of(
    view: View,
    path: PathText,
    files: Files | None = None,
    columns: Sequence[str] = (),
    where: Where | None = None,
    *,
    format: str | None = None,
    nested: bool = True,
) -> "Source":
    """Return the source of the frames of every library in memory."""
    from graveler.frames.source import Source

    path, wanted, names = prefix_text(path, "path"), conditions(where), texts(columns, "columns")
    format, files = table_files(view, path, files, format=format, nested=nested)
    if format not in FORMATS:
        check_format(path, format)
        raise InvalidInputError(
            f"format {format!r}: give one of {', '.join(FORMATS)}, or use Spark"
        )
    files, wanted = pruned(files, wanted, lambda: UTC)
    source = Source(view, path, files, format, names, wanted)
    if names or wanted:
        source.check_columns()
    return source


def table_files(
    view: View,
    path: str,
    files: Files | None = None,
    *,
    format: str | None = None,
    nested: bool = True,
) -> tuple[str, Files]:
    """Return the format and the files of the table at `path`; refuse a table without files."""
    optional(text, format, "format")
    if files is None:
        files = table_entries(view, path, nested=flag(nested, "nested"))
    if not files:
        raise ObjectNotFoundError(f"nothing to read at {path!r}: write it first")
    return of_one_format(path, files, format)


def _library(as_: Any) -> FrameLibrary:
    if isinstance(as_, str):
        return library_named(as_)
    library = library_of(as_) if isinstance(as_, type) else None
    if library is None:
        raise InvalidInputError(
            f"as_={full_name(as_)}: not a type of frames: give one of pandas, polars, pyarrow, DuckDB "
            "or Spark, such as pandas.DataFrame"
        )
    return library
