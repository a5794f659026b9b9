"""The first rows of a table's file, or the lines of any other one, as they are read."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, BinaryIO

from graveler.base.bounded import csv_rows
from graveler.frames.formats import format_of
from graveler.frames.libraries import library_named
from graveler.model import Entry

LINE = "line"
"""The name of the only column of a file that is no table."""
_LINE_BYTES = 1 << 20
_BATCH = 25


def form_of(entry: Entry) -> str:
    """Return the format of a table's file by its name, or "" for any other file."""
    name = entry.path.rpartition("/")[2]
    return "" if name.startswith(("_", ".")) else format_of(name) or ""


def rows_of(
    entry: Entry, stream: BinaryIO, *, columns: int | None = None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table, or the lines of any other file, as they are read.

    Args:
        columns: Of a Parquet or Arrow file, read only the first so many columns.
    """
    form, packed = form_of(entry), entry.path.lower().endswith(".gz")
    if form in {"parquet", "arrow"}:
        for batch in _batches(stream, form, columns):
            for start in range(0, len(batch), _BATCH):  # a batch of Arrow may have all rows
                yield from _rows(batch.slice(start, _BATCH))
    elif form == "csv":
        lines = (row for row in csv_rows(stream, repr(entry.path), packed=packed) if row)
        names = next(lines, [])
        yield from (dict(zip(names, row, strict=False)) for row in lines)
    else:
        yield from _lines(gzip.GzipFile(fileobj=stream) if packed else stream, form)


def _batches(stream: Any, form: str, columns: int | None) -> Iterator[Any]:
    library_named("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet

    if form == "parquet":
        file = pyarrow.parquet.ParquetFile(stream, buffer_size=_LINE_BYTES, pre_buffer=False)
        names = None if columns is None else file.schema_arrow.names[:columns]
        yield from file.iter_batches(_BATCH, columns=names, use_threads=False)
    else:
        file = pa.ipc.open_file(stream)
        if columns is not None and columns < len(file.schema):
            chosen = pa.ipc.IpcReadOptions(included_fields=[*range(columns)])
            file = pa.ipc.open_file(stream, options=chosen)
        yield from map(file.get_batch, range(file.num_record_batches))


def _rows(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch; times are text if Python has no such time or no such zone."""
    import pyarrow as pa

    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (OverflowError, KeyError):
        columns = [_text(each) if pa.types.is_temporal(each.type) else each for each in batch]
        rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows


def _text(times: Any) -> Any:
    import pyarrow as pa

    try:
        return times.cast(pa.string())
    except pa.ArrowInvalid:  # there is no such zone
        return times.cast(pa.timestamp(times.type.unit)).cast(pa.string())


def _lines(stream: Any, form: str) -> Iterator[Mapping[str, Any]]:
    """Yield JSON objects, as long as each line is one, and else lines."""
    for raw in iter(lambda: stream.readline(_LINE_BYTES), b""):
        try:
            row = json.loads(raw) if form else None
        except ValueError:
            row = None
        if not isinstance(row, dict):
            form, row = "", {LINE: raw.rstrip(b"\r\n").decode(errors="backslashreplace")}
        yield row


def plain_value(value: Any) -> Any:
    """Return a value of a table as one of JSON."""
    match value:
        case float():
            return value if isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case bytes():
            return value.decode(errors="backslashreplace")
        case Mapping():
            return {str(name): plain_value(each) for name, each in value.items()}
        case list() | tuple():
            return [plain_value(each) for each in value]
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)


def cell_text(value: Any) -> str:
    """Return a value of a table as a person reads it."""
    plain = plain_value(value) if not isinstance(value, float) else value
    if isinstance(plain, dict | list):
        return json.dumps(plain, ensure_ascii=False)
    return "null" if plain is None else str(plain)


def column_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns, in the order in which they come."""
    return list(dict.fromkeys(name for row in rows for name in row))
