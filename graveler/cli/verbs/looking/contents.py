"""``graveler cat`` and ``head``: the bytes of files, and their first rows or lines."""

import gzip
import json
import shutil
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated, Any

from graveler.base.bounded import csv_rows
from graveler.cli.arguments import Address
from graveler.cli.output import Output, counted
from graveler.cli.selection import chosen, is_pattern, matching
from graveler.cli.session import Session
from graveler.cli.verb import verb

if TYPE_CHECKING:
    from graveler.model import Entry
    from graveler.reads.view import View

_PIECE_BYTES = 1 << 20
_LINE_BYTES = 1 << 20
_BATCH = 100
_CELL = 40
_GAP = 2
_LINE = "line"


@verb("cat")
def _cat(session: Session, files: list[str]) -> None:
    """Write the bytes of files to the standard output, one after another.

    With --json, one object for each file, with its text, or base64 if it is no UTF-8.

    Args:
        files (REF:PATH...): Files, or patterns of them, as in 'main:input/*/part-*.csv'.
    """
    for text in files:
        ref, path = Address.of_file(text)
        view = session.view(ref)
        entries = matching(view, path) if is_pattern(path, view) else [view.stat(path)]
        for entry in entries:
            if session.out.as_json:
                session.out.show({"path": entry.path, "size": entry.size, **_body(view.get(entry))})
                continue
            with view.open(entry) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    session.out.data(piece)


def _body(content: bytes) -> dict[str, str | None]:
    try:
        return {"text": content.decode(), "base64": None}
    except UnicodeDecodeError:
        return {"text": None, "base64": b64encode(content).decode()}


@verb("head")
def _head(session: Session, file: str, *, rows: Annotated[int, {"min": 0}] = 10) -> None:
    """Show the first rows of a Parquet, CSV, JSON lines or Arrow file; of others, the first lines.

    Only the needed part of the file is read. Values of CSV files are text, as they are written.

    Args:
        file (REF:PATH): A file; or a folder or a pattern, for the first rows of all its tables.
        rows (-n N): The number of rows or lines.
    """
    ref, path = Address.of_file(file)
    view = session.view(ref)
    found = list(islice(_rows(view, path), rows))
    if rows and not found:
        session.out.tell("no rows")
    if session.out.as_json or all(row.keys() == {_LINE} for row in found):
        for row in found:
            session.out.show(plain_value(row), str(row.get(_LINE, "")))
    else:
        _show_table(session.out, found)


def _rows(view: "View", path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file, or of all tables of a folder or a pattern."""
    for entry in chosen(view, path):
        if entry.path == path or form_of(entry):
            yield from rows_of(view, entry)


def form_of(entry: "Entry") -> str:
    """Return the format of a table's file by its name, or "" for any other file."""
    from graveler.frames.formats import format_of

    name = entry.path.rpartition("/")[2]
    return "" if name.startswith(("_", ".")) else format_of(name) or ""


def rows_of(view: "View", entry: "Entry") -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table, or the lines of any other file, as they are read."""
    from graveler.gates.footers import reading

    form, packed = form_of(entry), entry.path.lower().endswith(".gz")
    with view.open(entry) as stream, reading(entry, form or "text"):
        if form in {"parquet", "arrow"}:
            for batch in _batches(stream, form):
                yield from batch.to_pylist()
        elif form == "csv":
            lines = (row for row in csv_rows(stream, repr(entry.path), packed=packed) if row)
            names = next(lines, [])
            yield from (dict(zip(names, row, strict=False)) for row in lines)
        else:
            yield from _lines(gzip.GzipFile(fileobj=stream) if packed else stream, form)


def _batches(stream: Any, form: str) -> Iterator[Any]:
    from graveler.frames.libraries import library_named

    library_named("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet

    if form == "parquet":
        file = pyarrow.parquet.ParquetFile(stream, buffer_size=_LINE_BYTES, pre_buffer=False)
        yield from file.iter_batches(_BATCH, use_threads=False)
    else:
        file = pa.ipc.open_file(stream)
        yield from map(file.get_batch, range(file.num_record_batches))


def _lines(stream: Any, form: str) -> Iterator[Mapping[str, Any]]:
    """Yield JSON objects, as long as each line is one, and else lines."""
    for raw in iter(lambda: stream.readline(_LINE_BYTES), b""):
        try:
            row = json.loads(raw) if form else None
        except ValueError:
            row = None
        if not isinstance(row, dict):
            form, row = "", {_LINE: raw.rstrip(b"\r\n").decode(errors="backslashreplace")}
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


def _show_table(out: Output, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as columns; a terminal gets no more columns than it shows whole."""
    room: float = shutil.get_terminal_size().columns if out.terminal else inf
    shown: list[list[str]] = []
    names = column_names(rows)
    for name in names:
        values = [row.get(name) for row in rows]
        cells = [name, *map(cell_text, values)]
        if out.terminal:
            cells = [cell[: _CELL - 1] + "…" if len(cell) > _CELL else cell for cell in cells]
        width = max(map(len, cells))
        if shown and width > room:
            break
        room -= width + _GAP
        pad = str.rjust if all(isinstance(value, int | float) for value in values) else str.ljust
        shown.append([pad(cell, width) for cell in cells])
    for number, line in enumerate(zip(*shown, strict=True)):
        text = (" " * _GAP).join(line).rstrip()
        out.line(text if number else out.style(text, bold=True))
    if hidden := len(names) - len(shown):
        out.line(out.style(f"… {counted(hidden, 'more column')}: --json has all", dim=True))


def column_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns, in the order in which they come."""
    return list(dict.fromkeys(name for row in rows for name in row))
