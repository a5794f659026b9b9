"""Columns of files as Arrow tables, for checks that need more than footers."""

import gzip
import io
from collections.abc import Sequence
from typing import Any

from graveler.errors import CorruptionError, InvalidInputError, MissingDependencyError
from graveler.gates.footers import Files, Footer, open_parquet, read_footer
from graveler.gates.statistics import kind_of
from graveler.model import Entry


def footer_of(files: Files, entry: Entry) -> Footer | None:
    """Return the footer of a Parquet file; None for any other file."""
    return read_footer(files, entry) if kind_of(entry) == "parquet" else None


def has_column(footer: Footer, name: str) -> bool:
    """Return whether a file has a leaf column of that path; refuse one inside a list or a map."""
    column = footer.columns.get(name)
    if column is not None and column.repeated:
        raise InvalidInputError(
            f"column {name!r} lies within a list or a map: name one that has a value for each row"
        )
    return column is not None or name in footer.fields


def table(files: Files, entry: Entry, columns: Sequence[str]) -> Any:
    """Return columns of a file as an Arrow table; no other column of a Parquet file is read.

    A column within a struct keeps its path (``a.b``) as its name.

    Raises:
        CorruptionError: The file is damaged, or its format has no columns.
        InvalidInputError: The file has no such column.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as error:
        raise MissingDependencyError(
            "this check reads columns, which needs pyarrow: install graveler[gates]"
        ) from error
    match kind_of(entry):
        case "parquet":
            whole = _parquet(files, entry, columns)
        case "csv":
            whole = _csv(files, entry)
        case _:
            raise CorruptionError(
                f"{entry.path!r} is neither Parquet nor CSV by its name: its columns cannot be "
                "read; give a narrower prefix, or a check of your own"
            )
    arrays = [_leaf(whole, entry, name) for name in columns]
    return pa.table(arrays, names=list(columns))


def _parquet(files: Files, entry: Entry, columns: Sequence[str]) -> Any:
    file = open_parquet(files, entry)
    try:
        return file.read(columns=list(columns), use_threads=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise CorruptionError(
            f"{entry.path!r} cannot be read as Parquet: {str(error).splitlines()[0][:200]}"
        ) from error


def _csv(files: Files, entry: Entry) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv  # noqa: PLC0415

    raw = files.get(entry.path)
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        return pyarrow.csv.read_csv(io.BytesIO(raw), convert_options=options)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise CorruptionError(
            f"{entry.path!r} cannot be read as CSV: {str(error).splitlines()[0][:200]}"
        ) from error


def _leaf(whole: Any, entry: Entry, name: str) -> Any:
    if name in whole.column_names:
        return whole.column(name)
    top, *inner = name.split(".")
    if top not in whole.column_names:
        raise InvalidInputError(
            f"{entry.path!r} has no column {name!r}: it has {', '.join(whole.column_names)}"
        )
    import pyarrow.compute  # noqa: PLC0415

    try:
        return pyarrow.compute.struct_field(whole.column(top), inner)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidInputError(f"{entry.path!r} has no column {name!r}: {error}") from error
