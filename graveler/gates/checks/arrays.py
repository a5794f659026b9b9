"""Columns of files as Arrow arrays, in one type, for checks that need more than footers.

pyarrow is loaded with this module, which the checks import when they run.
"""

import io
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from math import nan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from graveler.base.bounded import (
    check_expanded,
    csv_rows,
    gzip_content,
    parquet_batches,
    text_columns,
)
from graveler.errors import InvalidInputError
from graveler.frames.footers import Files, TableFile, open_parquet, reading
from graveler.gates.checks.base import in_utc
from graveler.gates.statistics import kind_of
from graveler.model import Entry
from graveler.reads.partitions import folder_values

_NULLS = ("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null")
"""Fields of a CSV file that are null. NaN is a number, as in a Parquet file."""

_LARGEST_BLOCK = 2**31 - 1
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?[0-9]*\.[0-9]+([eE][-+]?[0-9]+)?")
_NO_NUMBER = r"^\s*-?0[0-9]|[0-9]{16}"
"""Texts that stay text: they have leading zeros, or more digits than a double holds."""

_ZONE = r":\d\d.*(Z|[-+]\d\d(:?\d\d)?)$"
_DAY = r"^\d{4}-\d\d-\d\d$"
_EXACT = 2.0**53
"""Whole numbers below it are exact as floating-point numbers."""


def table(files: Files, entry: Entry, columns: Sequence[str], *, text: bool = False) -> Any:
    """Return columns of a file as an Arrow table; no other column of a Parquet file is read.

    A column within a struct keeps its path (``a.b``) as its name. Dictionaries are decoded. A column
    of the ``key=value`` folders of the path has the same value in each row.
    """
    folders = dict(folder_values(entry.path))
    stored = [name for name in columns if name not in folders]
    match kind_of(entry):
        case "parquet" if isinstance(entry, TableFile):
            whole = entry.read(stored)
            rows = len(whole)
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


def total(files: Files, entry: Entry, column: str) -> float:
    """Return the sum of a column of numbers; nulls count as nothing."""
    values = table(files, entry, [column]).column(column)
    if pa.types.is_integer(values.type) or pa.types.is_decimal(values.type):
        values = values.cast(pa.float64(), safe=False)  # Arrow's sum of whole numbers wraps around
    try:
        return float(pc.sum(values).as_py() or 0)
    except pa.ArrowNotImplementedError:
        raise InvalidInputError(
            f"{entry.path!r}: column {column!r} is {values.type}: name a column of numbers"
        ) from None


def _repeated(value: str | None, rows: int, *, text: bool) -> Any:
    known = pa.scalar(value, pa.string())
    if value is not None and not text:
        number = pa.int64() if _WHOLE.fullmatch(value) else pa.float64()
        kinds = [number] if _WHOLE.fullmatch(value) or _NUMBER.fullmatch(value) else []
        for kind in (*kinds, pa.date32(), pa.timestamp("us")):
            with suppress(pa.ArrowInvalid):
                return pa.repeat(known.cast(kind), rows)
    return pa.repeat(known, rows)


def _parquet(files: Files, entry: Entry, columns: Sequence[str]) -> tuple[Any, int]:
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
        return pa.Table.from_batches(batches), rows


def _csv(files: Files, entry: Entry, texts: Sequence[str]) -> Any:
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
    try:
        return pc.struct_field(whole.column(top), inner)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidInputError(f"{entry.path!r} has no column {name!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class Part:
    """A column of one file.

    Attributes:
        values: The Arrow array.
        typed: Whether the file declares the type; values of CSV files and of folders are text.
    """

    values: Any
    typed: bool


def _parts_of(files: Files, entries: Iterable[Entry], columns: Sequence[str]) -> list[list[Part]]:
    parts: list[list[Part]] = [[] for _ in columns]
    held = size = 0
    for entry in entries:
        rows, folders = table(files, entry, columns, text=True), dict(folder_values(entry.path))
        held, size = held + rows.nbytes, size + entry.size
        check_expanded(f"what is compared, up to {entry.path!r},", held, size)
        for number in range(len(columns)):
            typed = kind_of(entry) != "csv" and columns[number] not in folders
            parts[number].append(Part(rows.column(number), typed))
    return parts


def aligned(parts: Sequence[Part], name: str) -> list[Any]:
    """Return the arrays of a column in one type.

    That is the common type of the files that declare one, with times in UTC. Values of CSV files
    are converted to it; if no file declares a type, they are numbers if each is one and has no
    leading zero. If there is no such type, all values are text.
    """
    plain = [Part(_in_utc(part.values), part.typed) for part in parts]
    for kind in _kinds(plain):
        try:
            return [_without_signed_zero(_cast(part.values, kind)) for part in plain]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    try:
        return [_text(part.values) for part in plain]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        kinds = sorted({str(part.values.type) for part in parts})
        raise InvalidInputError(
            f"column {name!r} is {' and '.join(kinds)}, which cannot be compared: give a narrower "
            "prefix, or a check of your own"
        ) from error


def _kinds(parts: Sequence[Part]) -> list[Any]:
    declared = {part.values.type for part in parts if part.typed} - {pa.null()}
    if any(map(pa.types.is_timestamp, declared)):  # a date is its first moment
        declared = {kind for kind in declared if not pa.types.is_date(kind)}
    if declared:
        try:
            schemas = [pa.schema([("", kind)]) for kind in declared]
            kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return []
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return [kind, pa.float64()]
        if pa.types.is_date(kind):
            return [kind, pa.timestamp("us", "UTC")]
        return [] if pa.types.is_nested(kind) else [kind]
    odd = (pc.match_substring_regex(_text(part.values), _NO_NUMBER) for part in parts)
    if any(pc.any(column).as_py() for column in odd):
        return []
    return [pa.int64(), pa.float64(), pa.timestamp("us", "UTC")]


def _cast(values: Any, kind: Any) -> Any:
    """Return values in a type; a text without a zone is a time in UTC."""
    if pa.types.is_timestamp(kind) and pa.types.is_string(values.type):
        zoned = pc.match_substring_regex(values, _ZONE)
        day = pc.match_substring_regex(values, _DAY)
        ends = pc.if_else(zoned, "", pc.if_else(day, " 00:00:00Z", "Z"))
        values = pc.binary_join_element_wise(values, ends, "")
    elif pa.types.is_timestamp(kind) and pa.types.is_date(values.type):
        values = values.cast(pa.timestamp(kind.unit))
    elif pa.types.is_floating(kind) and pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # Arrow's own conversion rounds: 7.00 is not 7.0
    return values.cast(kind)


def _in_utc(values: Any) -> Any:
    """Return times in UTC; a time without a zone is in UTC already. Other values are unchanged."""
    kind = values.type
    return values.cast(pa.timestamp(kind.unit, "UTC")) if pa.types.is_timestamp(kind) else values


def _without_signed_zero(values: Any) -> Any:
    """Return floating-point values with 0.0 for -0.0, which equals it but has another hash."""
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


def _text(values: Any) -> Any:
    """Return values as text; numbers have no zeros at their ends: 7.00 is 7."""
    text = _without_signed_zero(values).cast(pa.string())
    if not (pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)):
        return text
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")


def rows_of(files: Files, entries: list[Entry], columns: tuple[str, ...]) -> Any:
    """Return columns of several files as one table whose columns are named by number."""
    parts = _parts_of(files, entries, columns)
    together = [
        pa.concat_tables(pa.table({"": array}) for array in aligned(column, name))[""]
        for name, column in zip(columns, parts, strict=True)
    ]
    return pa.table(together, names=[str(number) for number in range(len(columns))])


def repeated(rows: Any) -> Any:
    """Return the rows of a table that occur more than once, with their number; none with a null."""
    names = rows.column_names
    for name in names:
        rows = rows.filter(rows.column(name).is_valid())
    counted = rows.group_by(names).aggregate([([], "count_all")])
    return counted.filter(pc.greater(counted.column("count_all"), 1))


def distinct(files: Files, entries: Iterable[Entry], column: str) -> list[Part]:
    """Return the distinct values of a column of each file, without null."""
    return [
        Part(part.values.drop_null().unique(), part.typed)
        for entry in entries
        for part in _parts_of(files, [entry], [column])[0]
    ]


def values_of(arrays: Iterable[Any]) -> set[Any]:
    """Return the values, with one NaN for all."""
    return {nan if value != value else value for array in arrays for value in array.to_pylist()}


def read_bounds(
    files: Files, entry: Entry, name: str, *, text: bool, times: bool
) -> tuple[Any, Any, int]:
    """Return the least and greatest value of a column in a file, and the number of NaN values."""
    values = table(files, entry, [name]).column(name).drop_null()
    if times and pa.types.is_string(values.type):
        found = [_time(value, name) for value in values.to_pylist()]
        return min(found, default=None), max(found, default=None), 0
    if kind_of(entry) == "csv" and pa.types.is_floating(values.type):
        large = pc.greater_equal(pc.abs(values), _EXACT)
        if pc.any(pc.and_(large, pc.is_finite(values))).as_py():
            texts = table(files, entry, [name], text=True).column(name).drop_null().to_pylist()
            exact = [number for number in map(Decimal, texts) if not number.is_nan()]
            return min(exact), max(exact), len(texts) - len(exact)
    if text and not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
        values = table(files, entry, [name], text=True).column(name).drop_null()
    nans = 0
    if pa.types.is_floating(values.type):
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        nans, values = len(values) - len(numbers), numbers
    if not len(values):
        return None, None, nans
    try:
        bounds = pc.min_max(values).as_py()
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(
            f"column {name!r} is {values.type}, whose values have no order: name another"
        ) from error
    return bounds["min"], bounds["max"], nans


def _time(value: str, column: str) -> datetime:
    try:
        return in_utc(datetime.fromisoformat(value))
    except ValueError:
        raise InvalidInputError(
            f"column {column!r} has {value!r}, which is no ISO 8601 time, and the bounds are times: correct "
            "the file, or write its times as ISO 8601"
        ) from None
