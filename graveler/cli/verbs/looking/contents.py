"""``graveler cat`` and ``head``: the bytes of files, and their first rows or lines."""

import shutil
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.arguments import Address
from graveler.cli.output import Output, counted
from graveler.cli.selection import chosen, is_pattern, matching
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.frames.first_rows import (
    LINE,
    cell_text,
    column_names,
    form_of,
    plain_value,
    rows_of,
)

if TYPE_CHECKING:
    from graveler.reads.view import View

_PIECE_BYTES = 1 << 20
_CELL = 40
_GAP = 2


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
    if session.out.as_json or all(row.keys() == {LINE} for row in found):
        for row in found:
            session.out.show(plain_value(row), str(row.get(LINE, "")))
    else:
        _show_table(session.out, found)


def _rows(view: "View", path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file, or of all tables of a folder or a pattern."""
    from graveler.frames.footers import reading

    for entry in chosen(view, path):
        form = form_of(entry)
        if entry.path == path or form:
            with view.open(entry) as stream, reading(entry, form or "text"):
                yield from rows_of(entry, stream)


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
