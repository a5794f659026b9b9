"""The page of a file: its first rows, its columns, its versions, and who made it from what."""

import io
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from graveler.base.names import path_key
from graveler.errors import GravelerError, InvalidInputError
from graveler.frames.first_rows import LINE, cell_text, column_names, form_of, rows_of
from graveler.frames.footers import Column, Footer, read_footer, reading
from graveler.lake import Repository
from graveler.model import Commit, Entry
from graveler.objects.verified import RangedFile
from graveler.pages.page import Page
from graveler.pages.query import Query
from graveler.pages.trees.files import files
from graveler.pages.trees.places import (
    COMMITS,
    Place,
    is_folder,
    moves_of,
    nothing_at,
    place_of,
    shell_word,
)
from graveler.reads.changes import last_changes
from graveler.reads.view import find_value
from graveler.runs.provenance import Why
from graveler.tables.views import Ref
from graveler.values import deferred_entry

ROWS = 20
"""A page shows so many rows or lines of a file."""
COLUMNS = 40
"""A page shows so many columns of the rows."""
FIELDS = 200
"""A page shows so many columns of the schema."""
CELL = 200
"""A page shows so many characters of a cell."""
READ_BYTES = 64 << 20
"""A page reads so many bytes of a file."""
WHOLE_BYTES = 4 << 20
"""A smaller file is read whole, and compared with its checksum."""
FOOTER_BYTES = 16 << 20
"""A page reads no larger footer."""
PARTS = 20_000
"""A page reads the statistics of so many parts of columns."""
VERSIONS = 10
"""A page shows so many versions of a file."""
LOOKS = 60
"""A page compares a file in so many commits to find one earlier version; fewer commits are searched whole."""
PAIRS = 50
"""A page shows so many pairs of metadata."""
_TAIL = 8
_START = 1 << 13


class Head(NamedTuple):
    """The first rows of a table, or the first lines of a text.

    Attributes:
        kind: ``rows``, ``lines``, ``binary`` or ``unread``.
        hidden: Number of columns that are not shown.
        verified: Whether the whole file was compared with its checksum.
        problem: Why the bytes could not be read.
    """

    kind: str
    columns: Sequence[str] = ()
    cells: Sequence[Sequence[str]] = ()
    more: bool = False
    hidden: int = 0
    verified: bool = False
    problem: str = ""


class Field(NamedTuple):
    """A column by the footer; empty texts are unknown."""

    name: str
    type: str
    nullable: bool | None
    nulls: int | None
    least: str
    greatest: str


class Schema(NamedTuple):
    """The columns of a file.

    Attributes:
        note: What is left out, and why.
    """

    rows: int | None = None
    fields: Sequence[Field] = ()
    hidden: int = 0
    note: str = ""


class Version(NamedTuple):
    """A version of a file: the commit that made it, and the entry then; None: it was removed."""

    commit: Commit
    entry: Entry | None


def file(repository: Repository, query: Query) -> Page:
    """Return the page of a file; without a path that of all files."""
    place = place_of(repository, query, folder=False)
    if not place.path:
        return files(repository, query)
    if place.path.endswith("/") or not place.ref.exists(place.path):
        return nothing_at(place, query)
    entry = place.ref.stat(place.path)
    head = first_rows(place.ref, entry)
    versions = list(islice(versions_of(place), VERSIONS + 1))
    earliest = versions[-1].commit if versions else place.ref.commit
    schema = schema_of(place.ref, entry) if not head.problem else Schema()
    pairs = sorted(entry.metadata.items())
    values = {
        "place": place,
        "entry": entry,
        "form": form_of(entry),
        "uri": place.ref.uri(entry),
        "pairs": pairs[:PAIRS],
        "hidden_pairs": len(pairs[PAIRS:]),
        "head": head,
        "schema": schema,
        "versions": versions[:VERSIONS],
        "older": len(versions) > VERSIONS or earliest.generation > LOOKS,
        "why": why_of(repository, place, versions),
        "moves": moves_of(repository, place),
        "also_folder": is_folder(place.ref, place.path),
        "address": f"grav://{repository.name}/{place.at}/{place.path}",
        "provenance": shell_word(f"{place.path}:{place.at}"),
    }
    return Page("file", place.name, values)


def first_rows(ref: Ref, entry: Entry) -> Head:
    """Return the first rows of a file, or why they cannot be read."""
    form = form_of(entry)
    whole = entry.size <= WHOLE_BYTES
    try:
        stream = io.BytesIO(ref.get(entry)) if whole else _part(ref, entry)
        if not form and _is_binary(entry, stream):
            return Head("binary", verified=whole)
        with reading(entry, form or "text"):
            rows = list(islice(rows_of(entry, stream, columns=COLUMNS), ROWS + 1))
            return _head(rows, verified=whole)
    except (GravelerError, MemoryError) as error:
        return Head("unread", problem=str(error))


def _part(ref: Ref, entry: Entry) -> BinaryIO:
    """Return a stream of a file that refuses to read too much of it."""
    left = READ_BYTES

    def read(start: int, length: int) -> bytes:
        nonlocal left
        left -= length
        if left < 0:
            raise InvalidInputError(
                f"the first rows take more than {READ_BYTES >> 20} MiB of the file: a page reads no more"
            )
        return ref.read_range(entry, start, length)

    return io.BufferedReader(RangedFile(entry.size, read))


def _is_binary(entry: Entry, stream: BinaryIO) -> bool:
    """Return whether a file that is no table is no text either, by its first bytes."""
    start = stream.read(_START)
    stream.seek(0)
    if entry.path.lower().endswith(".gz"):
        return False
    try:
        getincrementaldecoder("utf-8")().decode(start, final=len(start) < _START)
    except UnicodeDecodeError:
        return True
    return b"\0" in start


def _head(rows: Sequence[Mapping[str, Any]], *, verified: bool) -> Head:
    if all(row.keys() == {LINE} for row in rows):
        lines = [[_cell(row[LINE])] for row in rows[:ROWS]]
        return Head("lines", [LINE], lines, more=len(rows) > ROWS, verified=verified)
    names = column_names(rows)
    cells = [[_cell(row[n]) if n in row else "" for n in names[:COLUMNS]] for row in rows[:ROWS]]
    return Head(
        "rows",
        names[:COLUMNS],
        cells,
        more=len(rows) > ROWS,
        hidden=len(names[COLUMNS:]),
        verified=verified,
    )


def _cell(value: Any) -> str:
    text = cell_text(value)
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"


def schema_of(ref: Ref, entry: Entry) -> Schema:
    """Return the columns of a file by its footer, if its format has one."""
    form = form_of(entry)
    try:
        if form == "parquet":
            if int.from_bytes(ref.read_range(entry, max(entry.size - _TAIL, 0), 4), "little") > (
                FOOTER_BYTES
            ):
                return Schema(note=f"The footer has more than {FOOTER_BYTES >> 20} MiB: not read.")
            return _of_footer(read_footer(ref, entry, most=PARTS))
        if form == "arrow":
            return _of_arrow(ref, entry)
    except GravelerError as error:
        return Schema(note=str(error))
    return Schema()


def _of_footer(footer: Footer) -> Schema:
    fields = [
        Field(name, kind, footer.nullable[name], *_bounds(footer.columns.get(name)))
        for name, kind in footer.schema[:FIELDS]
    ]
    note = (
        "" if footer.columns or not footer.rows else "It has too many parts: bounds are left out."
    )
    return Schema(footer.rows, fields, len(footer.schema[FIELDS:]), note)


def _bounds(column: Column | None) -> tuple[int | None, str, str]:
    if column is None:
        return None, "", ""
    least, greatest = ("" if x is None else _cell(x) for x in (column.least, column.greatest))
    return column.nulls, least, greatest


def _of_arrow(ref: Ref, entry: Entry) -> Schema:
    import pyarrow as pa

    with reading(entry, "Arrow"):
        found = pa.ipc.open_file(RangedFile(entry.size, partial(ref.read_range, entry))).schema
    fields = [
        Field(each.name, str(each.type), each.nullable, None, "", "")
        for each in islice(found, FIELDS)
    ]
    return Schema(None, fields, max(len(found) - FIELDS, 0))


def versions_of(place: Place) -> Iterator[Version]:
    """Yield the versions of a file on the line of first parents, as far as a page looks."""
    stores, key, commit = place.ref.repository, path_key(place.path), place.ref.commit
    while found := last_changes(stores, commit, [key], looks=LOOKS, far=COMMITS).get(key):
        value = find_value(Ref(stores, found), key)
        yield Version(found, None if value is None else deferred_entry(key, value, found.id))
        if not found.parents:
            return
        commit = stores.refs.commits.get(found.parents[0])


def why_of(repository: Repository, place: Place, versions: Sequence[Version]) -> Why | None:
    """Return who made the latest version, and from what; None if it is too far back."""
    if not versions:
        return None
    try:
        return repository.why(place.path, versions[0].commit.id)
    except GravelerError:  # its tree is expired
        return None
