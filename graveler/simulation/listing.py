"""Listings of buckets: S3 inventories as Parquet or as CSV, plain or compressed by gzip."""

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote_to_bytes

from graveler.base.arguments import whole_number
from graveler.base.names import check_path
from graveler.errors import InvalidInputError, MissingDependencyError, UnsortedKeysError

S3_COLUMNS = "Bucket, Key, Size, LastModifiedDate, ETag"
"""The columns of an inventory that has only the current versions, as its manifest lists them."""
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_NEEDED = ("key", "size")
_BATCH = 65_536
_SHOWN = 80
_TRUE = frozenset({"true", "1"})


class Listed(NamedTuple):
    """One file of a listing.

    Attributes:
        etag: The ETag in the listing; "" for none.
        modified: When it was written; None if the listing does not say.
        bucket: Its bucket; "" if the listing does not say.
    """

    key: bytes
    size: int
    etag: str
    modified: datetime | None
    bucket: str


def read_listings(
    files: Sequence[Path], *, columns: str = "", sort: bool = False
) -> Iterator[Listed]:
    """Yield the files of listings, in key order.

    Rows of older versions and of delete markers are left out. An inventory in CSV has no column names,
    and its keys are percent-encoded. A CSV file whose first row has a cell `Key` names its columns, and
    its keys are not decoded.

    Args:
        files: CSV, plain or compressed by gzip, or Parquet; the first bytes decide. Without `sort`,
            each file must begin after the last key of the file before.
        columns: Names of the columns of a CSV file that does not name them, as the `fileSchema` of
            an inventory's manifest lists them; "" for those of `S3_COLUMNS`.
    """
    rows = chain.from_iterable(_rows(file, columns or S3_COLUMNS) for file in files)
    last = b""
    for listed, place in sorted(rows) if sort else rows:
        if listed.key <= last:
            raise _out_of_order(listed.key, last, place)
        last = listed.key
        yield listed


def _out_of_order(key: bytes, last: bytes, place: str) -> InvalidInputError:
    shown = _shown(key)
    if key == last:
        return InvalidInputError(
            f"{place}: path {shown} is listed twice: leave one of the rows out; in a listing of "
            "all versions the column IsLatest says which one counts"
        )
    return UnsortedKeysError(
        f"{place}: path {shown} comes after {_shown(last)}: sort the listing by the bytes of the "
        "path, or let it be sorted (--sort)"
    )


def _shown(key: bytes) -> str:
    return repr(key.decode("utf-8", "replace")[:_SHOWN])


def _rows(file: Path, columns: str) -> Iterator[tuple[Listed, str]]:
    """Yield each row of a current file, and its position as text."""
    try:
        with file.open("rb") as stream:
            start = stream.read(len(_PARQUET))
            stream.seek(0)
            if start == _PARQUET:
                yield from _parquet_rows(file, stream)
            else:
                yield from _csv_rows(file, stream, columns, packed=start.startswith(_GZIP))
    except OSError as error:
        raise InvalidInputError(f"listing {file}: {error.strerror or error}") from error


def _csv_rows(
    file: Path, stream: BinaryIO, columns: str, *, packed: bool
) -> Iterator[tuple[Listed, str]]:
    rows = _cells(file, _lines(file, gzip.GzipFile(fileobj=stream) if packed else stream))
    first = next(rows, None)
    if first is None:
        return
    own = _names(first[0])
    named = "key" in own
    names = own if named else _names(columns.split(","))
    _check_columns(names, first[1])
    for cells, place in rows if named else chain([first], rows):
        if len(cells) != len(names):
            raise InvalidInputError(
                f"{place}: {len(cells)} columns, and {len(names)} are expected "
                f"({', '.join(names)}): name the columns of the file (--columns), as the "
                "fileSchema of the inventory's manifest does"
            )
        listed = _listed(dict(zip(names, cells, strict=True)), place, encoded=not named)
        if listed is not None:
            yield listed, place


def _cells(file: Path, lines: Iterator[str]) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each row, and its position as text."""
    reader = csv.reader(lines, strict=True)
    try:
        for cells in reader:
            yield cells, f"{file}:{reader.line_num}"
    except csv.Error as error:
        raise InvalidInputError(f"{file}:{reader.line_num}: not CSV: {error}") from error


def _lines(file: Path, stream: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a file as text; a line that is not UTF-8 is refused with its number."""
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if "\0" in text:
                raise InvalidInputError(
                    f"{file}:{number}: a NUL character: is the file UTF-8 text?"
                )
            yield text
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{file}:{number}: byte {error.object[error.start]:#04x} at {error.start} is not UTF-8: "
            "convert the listing to UTF-8"
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInputError(
            f"{file}: damaged after line {number} ({error}): fetch it again"
        ) from error


def _parquet_rows(file: Path, stream: BinaryIO) -> Iterator[tuple[Listed, str]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingDependencyError(
            f"listing {file} is Parquet: `pip install pyarrow`, or give it as CSV"
        ) from error
    at = 0
    try:
        parquet = pq.ParquetFile(stream)
        by_name = dict(
            zip(_names(parquet.schema_arrow.names), parquet.schema_arrow.names, strict=True)
        )
        _check_columns(tuple(by_name), str(file))
        wanted = [name for name in by_name if name in _COLUMNS]
        for batch in parquet.iter_batches(_BATCH, columns=[by_name[name] for name in wanted]):
            columns = [batch.column(by_name[name]).to_pylist() for name in wanted]
            for cells in zip(*columns, strict=True):
                at += 1
                place = f"{file}, row {at}"
                listed = _listed(dict(zip(wanted, cells, strict=True)), place, encoded=False)
                if listed is not None:
                    yield listed, place
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"listing {file} cannot be read as Parquet after row {at}: {error}"
        ) from error


_COLUMNS = frozenset(
    {"bucket", "key", "size", "etag", "lastmodifieddate", "islatest", "isdeletemarker"}
)


def _names(cells: Iterable[str]) -> tuple[str, ...]:
    """Return column names in one spelling, because S3's differ between CSV and Parquet."""
    return tuple(cell.strip().replace("_", "").lower() for cell in cells)


def _check_columns(names: Sequence[str], place: str) -> None:
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise InvalidInputError(
            f"{place}: no column {' and no column '.join(name.title() for name in missing)} in "
            f"{', '.join(names)}: name the columns of the file (--columns), as the fileSchema of the "
            "inventory's manifest does"
        )
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidInputError(
            f"{place}: several columns {', '.join(sorted(twice))}: name each once"
        )


def _listed(cells: Mapping[str, Any], place: str, *, encoded: bool) -> Listed | None:
    """Return the file of a row; None for an older version or a delete marker."""
    latest, deleted = (
        str(cells.get(name) or "").lower() for name in ("islatest", "isdeletemarker")
    )
    if deleted in _TRUE or (latest and latest not in _TRUE) or cells.get("islatest") is False:
        return None
    return Listed(
        key=_key(cells["key"], place, encoded=encoded),
        size=_size(cells["size"], place),
        etag=str(cells.get("etag") or ""),
        modified=_time(cells.get("lastmodifieddate"), place),
        bucket=str(cells.get("bucket") or ""),
    )


def _key(cell: Any, place: str, *, encoded: bool) -> bytes:
    text = cell if isinstance(cell, str) else ""
    try:
        if encoded:
            text = unquote_to_bytes(text.replace("+", " ")).decode("utf-8")
        return check_path(text)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{place}: path {text[:_SHOWN]!r} is not UTF-8: rename the file"
        ) from error
    except InvalidInputError as error:
        raise InvalidInputError(f"{place}: {error}") from error


def _size(cell: Any, place: str) -> int:
    try:
        size = whole_number(cell)
    except ValueError:
        size = -1
    if size < 0:
        raise InvalidInputError(
            f"{place}: size {cell!r}: give a number of bytes; are the columns in another order "
            "(--columns)?"
        )
    return size


def _time(cell: Any, place: str) -> datetime | None:
    if cell is None or cell == "":
        return None
    try:
        time = cell if isinstance(cell, datetime) else datetime.fromisoformat(cell)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{place}: time {cell!r}: give it in ISO 8601, as in 2021-04-26T02:00:00.000Z"
        ) from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
