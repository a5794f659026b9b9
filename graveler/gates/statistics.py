"""Statistics of files: their number, size and rows, and the bounds of their columns.

The statistics of the files that an earlier commit wrote are stored by commit and prefix:
key-value partition ``stats:<uid>``, key ``added/<commit>/<hash of the prefix>``. They outlive the
data. They need no backup, because they can be computed again while the data exists.
"""

import codecs
import csv
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from itertools import islice
from typing import Annotated, Any

from graveler.base.bounded import csv_rows
from graveler.base.names import path_key
from graveler.base.records import PLAIN, Schema, decode_json
from graveler.errors import CorruptionError
from graveler.frames.footers import Column, Files, Footer, TableFile, merged, read_footer, reading
from graveler.gates.declaration import plain
from graveler.model import Change, Commit, Entry
from graveler.reads.stores import Stores
from graveler.refs.history import log

_MOST_COLUMNS = 200
_BEGINNING = 1 << 20
_GZIP = b"\x1f\x8b"
_MARKUP = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x19\x1b-\x1f]"
)  # 0x1a, the DOS end-of-file mark, is allowed
_NUL = re.compile("\0")
_TEXT = 64
_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv"}


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column, from footers.

    Attributes:
        nulls: Number of null values; None if a file has no such statistics.
        least: Smallest value; None if a file has no such statistics. Times and decimals are text.
    """

    nulls: int | None = None
    least: Annotated[Any, PLAIN] = None
    greatest: Annotated[Any, PLAIN] = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of some files.

    Attributes:
        files: Number of files, except those whose name begins with ``_`` or ``.``.
        rows: Total rows; None if the rows of one file cannot be counted.
        columns: At most 200 columns of Parquet files, by name (``a.b`` within a struct).
    """

    files: int = 0
    bytes: int = 0
    rows: int | None = 0
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


STATISTICS = Schema(Statistics, "statistics")


def counts(entry: Entry) -> bool:
    """Return whether a file holds data, by its name; ``_SUCCESS`` and hidden files do not."""
    return not entry.path.rpartition("/")[2].startswith(("_", "."))


def kind_of(entry: Entry) -> str:
    """Return ``parquet``, ``csv`` or "" for the name of a file; a table's file counts as Parquet."""
    if isinstance(entry, TableFile):
        return "parquet"
    name = entry.path.rpartition("/")[2].lower()
    return next((kind for suffix, kind in _KINDS.items() if name.endswith(suffix)), "")


def footer_of(files: Files, entry: Entry) -> Footer | None:
    """Return the footer of a Parquet file; None for any other file."""
    return read_footer(files, entry) if kind_of(entry) == "parquet" else None


def brought(changes: Iterable[Change]) -> Iterator[Entry]:
    """Yield the files that changes add or replace."""
    for change in changes:
        if change.after is not None:
            yield change.after


def statistics(
    files: Files, entries: Iterable[Entry], footers: dict[tuple[str, str], Footer]
) -> Statistics:
    """Return the statistics of files, from the footers of Parquet files and all of CSV files."""
    number = size = 0
    rows: int | None = 0
    columns: dict[str, Column] = {}
    for entry in entries:
        if not counts(entry):
            continue
        number += 1
        size += entry.size
        match kind_of(entry):
            case "parquet":
                footer = _footer(files, entry, footers)
                rows = None if rows is None else rows + footer.rows
                for name, column in footer.columns.items():
                    if name in columns or len(columns) < _MOST_COLUMNS:
                        columns[name] = merged(columns.get(name), column)
            case "csv":
                rows = None if rows is None else rows + _csv_rows(files, entry)
            case _:
                rows = None
    plain_columns = {
        name: ColumnStatistics(column.nulls, _bound(column.least), _bound(column.greatest))
        for name, column in columns.items()
    }
    return Statistics(number, size, rows, plain_columns)


def _footer(files: Files, entry: Entry, footers: dict[tuple[str, str], Footer]) -> Footer:
    key = (entry.path, entry.address)
    if key not in footers:
        footers[key] = read_footer(files, entry)
    return footers[key]


def _bound(value: Any) -> Any:
    match value:
        case bool() | int() | float() | None:
            return plain({"value": value})["value"]
        case str():
            return value[:_TEXT]
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case _:
            return None


def csv_header(files: Files, entry: Entry) -> list[str]:
    """Return the names in the first line of a CSV file; only its beginning is read."""
    raw = files.read_range(entry.path, 0, min(entry.size, _BEGINNING)) if entry.size else b""
    with reading(entry, "CSV"):
        text = _beginning(raw, whole=entry.size <= _BEGINNING)
        names = next(csv.reader(io.StringIO(text, newline="")), [])
    # a row may have an odd character, but no NUL, which other kinds of files have
    if wrong := _MARKUP.match(text) or _CONTROL.search("".join(names)) or _NUL.search(text):
        raise CorruptionError(f"{entry.path!r} is no CSV: it holds {wrong.group().strip(' ')!r}")
    if not names:
        raise CorruptionError(f"{entry.path!r} cannot be read as CSV: it has no header")
    return names


def _beginning(raw: bytes, *, whole: bool) -> str:
    """Return the text at the beginning of a file, which may be compressed by gzip."""
    if raw[:2] == _GZIP:
        unpacking = zlib.decompressobj(wbits=31)
        raw = unpacking.decompress(raw, _BEGINNING)
        if whole and not unpacking.eof and len(raw) < _BEGINNING:
            raise EOFError("its end is missing")
        whole = unpacking.eof
    return codecs.getincrementaldecoder("utf-8-sig")().decode(raw, final=whole)


def _csv_rows(files: Files, entry: Entry) -> int:
    with reading(entry, "CSV"), files.open(entry.path) as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        return max(sum(1 for row in csv_rows(file, repr(entry.path), packed=packed) if row) - 1, 0)


_MOST_COMMITS = 1_000

Seen = Mapping[tuple[str, str], Statistics]
"""Computed statistics, by commit and prefix."""


@dataclass(frozen=True, slots=True)
class Past:
    """The files that one commit wrote below a prefix.

    Attributes:
        run: Key of the run that the commit published; "" if none.
        stats: Statistics of the files that the commit added or replaced.
    """

    commit: str
    created: datetime
    run: str
    stats: Statistics


def _key(commit: str, prefix: str) -> bytes:
    return f"added/{commit}/{sha256(prefix.encode()).hexdigest()[:32]}".encode()


def keep_statistics(stores: Stores, seen: Seen) -> None:
    """Store statistics that a gate has computed."""
    items = [(_key(*place), STATISTICS.encode(stats)) for place, stats in seen.items()]
    stores.kv.set_many(f"stats:{stores.uid}", items)


def known(stores: Stores, commit: str, prefix: str) -> Mapping[str, Any] | None:
    """Return the stored statistics of a commit's files, encoded, or None."""
    stored = stores.kv.get(f"stats:{stores.uid}", _key(commit, prefix))
    return None if stored is None else decode_json(stored.value, "statistics")


def touching(stores: Stores, head: str, prefixes: Sequence[str]) -> Iterator[Commit]:
    """Yield the commits that may have touched a prefix, among the latest 1,000 from `head` on."""
    line = islice(log(stores.refs.commits, head, first_parent=True), _MOST_COMMITS)
    return (commit for commit in line if any(_may_touch(commit, prefix) for prefix in prefixes))


def _may_touch(commit: Commit, prefix: str) -> bool:
    """Return False if the spans of a commit show that it changed nothing below the prefix."""
    if commit.spans is None:
        return True
    if not prefix:
        return bool(commit.spans)
    raw = path_key(prefix)
    return any(first[: len(raw)] <= raw <= last for first, last in commit.spans)


def last_touch(stores: Stores, head: str, prefixes: Sequence[str]) -> str:
    """Return the latest commit from `head` on that may have touched a prefix.

    Its id identifies the history of the prefixes: it covers all earlier commits, and no later
    commit changed anything there.
    """
    return next((commit.id for commit in touching(stores, head, prefixes)), head)
