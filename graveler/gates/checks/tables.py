"""Columns of files as Arrow tables, for checks that need more than footers."""

import io
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from graveler.errors import InvalidInputError
from graveler.gates.footers import Files, Footer, arrow, open_parquet, read_footer, reading
from graveler.gates.statistics import kind_of
from graveler.model import Entry
from graveler.reads.bounded import (
    check_expanded,
    csv_rows,
    gzip_content,
    parquet_batches,
    text_columns,
)
from graveler.reads.partitions import folder_values

_NULLS = ("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null")
"""Fields of a CSV file that are null. NaN is a number, as in a Parquet file."""

_LARGEST_BLOCK = 2**31 - 1
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?[0-9]*\.[0-9]+([eE][-+]?[0-9]+)?")


def footer_of(files: Files, entry: Entry) -> Footer | None:
    """Return the footer of a Parquet file; None for any other file."""
    return read_footer(files, entry) if kind_of(entry) == "parquet" else None


def table(files: Files, entry: Entry, columns: Sequence[str], *, text: bool = False) -> Any:
    """Return columns of a file as an Arrow table; no other column of a Parquet file is read.

    A column within a struct keeps its path (``a.b``) as its name. Dictionaries are decoded. A column
    of the ``key=value`` folders of the path has the same value in each row.

    Args:
        files: The tree of the file.
        entry: The file.
        columns: Names of the columns.
        text: Whether the columns of a CSV file and of folders are text; otherwise their types are
            inferred.

    Raises:
        CorruptionError: The file is damaged.
        InvalidInputError: The file has no such column, or its format has no columns.
    """
    arrow()
    import pyarrow as pa

    folders = dict(folder_values(entry.path))
    stored = [name for name in columns if name not in folders]
    match kind_of(entry):
        case "parquet":
            whole, rows = _parquet(files, entry, stored)
        case "csv":
            whole = _csv(files, entry, stored if text else ())
            rows = len(whole)
        case _:
            raise InvalidInputError(
                f"{entry.path!r} is neither Parquet nor CSV by its name: its columns cannot be "
                "read; give a narrower prefix, or a check of your own"
            )
    arrays = [
        _repeated(folders[name], rows, text=text)
        if name in folders
        else _plain(_leaf(whole, entry, name))
        for name in columns
    ]
    return pa.table(arrays, names=list(columns))


def _repeated(value: str | None, rows: int, *, text: bool) -> Any:
    import pyarrow as pa

    known = pa.scalar(value, pa.string())
    if value is not None and not text:
        number = pa.int64() if _WHOLE.fullmatch(value) else pa.float64()
        kinds = [number] if _WHOLE.fullmatch(value) or _NUMBER.fullmatch(value) else []
        for kind in (*kinds, pa.date32(), pa.timestamp("us")):
            with suppress(pa.ArrowInvalid):
                return pa.repeat(known.cast(kind), rows)
    return pa.repeat(known, rows)


def _parquet(files: Files, entry: Entry, columns: Sequence[str]) -> tuple[Any, int]:
    """Return columns of a Parquet file, and its number of rows."""
    file = open_parquet(files, entry)
    rows = file.metadata.num_rows
    with reading(entry):
        if not rows or not columns:
            return file.schema_arrow.empty_table(), rows
    texts = text_columns(file.schema)
    file = open_parquet(files, entry, metadata=file.metadata, read_dictionary=texts)
    name, held, batches = repr(entry.path), 0, []
    with reading(entry):
        for batch in parquet_batches(file, name, entry.size, columns):
            held += batch.nbytes
            check_expanded(name, held, entry.size)
            batches.append(batch)
        import pyarrow as pa

        return pa.Table.from_batches(batches), rows


def _csv(files: Files, entry: Entry, texts: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.csv

    raw = files.get(entry.path)
    options = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True,
        null_values=_NULLS,
        column_types=dict.fromkeys(texts, pa.string()),
    )
    with reading(entry, "CSV"):
        if raw[:2] == b"\x1f\x8b":
            raw = gzip_content(repr(entry.path), raw)
        if raw and b"\n" not in raw:
            raw += b"\n"  # Arrow reads a header without rows only if its line ends
        if b'"' in raw:  # Arrow takes all behind a quote that does not end for one value
            for _ in csv_rows(io.BytesIO(raw), repr(entry.path), packed=False, errors="replace"):
                pass
        # one block: a type is that of all rows, and a field may be long and have line breaks
        block = pyarrow.csv.ReadOptions(block_size=min(len(raw) + 1, _LARGEST_BLOCK))
        lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
        whole = pyarrow.csv.read_csv(
            io.BytesIO(raw), read_options=block, parse_options=lines, convert_options=options
        )
        if pa.binary() in whole.schema.types:  # what Arrow takes for no text
            raw.decode("utf-8-sig")
        return whole


def _plain(values: Any) -> Any:
    """Return dictionary values decoded, and half precision, which lacks functions, as single."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(values.cast(kind.value_type))
    return values.cast(pa.float32()) if pa.types.is_float16(kind) else values


def _leaf(whole: Any, entry: Entry, name: str) -> Any:
    if (number := whole.column_names.count(name)) > 1:
        raise InvalidInputError(f"{entry.path!r} has {number} columns {name!r}: rename one")
    if number:
        return whole.column(name)
    top, *inner = name.split(".")
    if top not in whole.column_names:
        raise InvalidInputError(
            f"{entry.path!r} has no column {name!r}: it has {', '.join(whole.column_names)}"
        )
    import pyarrow.compute

    try:
        return pyarrow.compute.struct_field(whole.column(top), inner)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidInputError(f"{entry.path!r} has no column {name!r}: {error}") from error
