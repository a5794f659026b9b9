"""Columns of several files in one type, so that their values can be compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from graveler.errors import InvalidInputError
from graveler.gates.checks.tables import table
from graveler.gates.footers import Files
from graveler.gates.statistics import kind_of
from graveler.model import Entry
from graveler.reads.bounded import check_expanded
from graveler.reads.partitions import folder_values

_NO_NUMBER = r"^\s*-?0[0-9]|[0-9]{16}"
"""Texts that stay text: they have leading zeros, or more digits than a double holds."""


_ZONE = r":\d\d.*(Z|[-+]\d\d(:?\d\d)?)$"
_DAY = r"^\d{4}-\d\d-\d\d$"


@dataclass(frozen=True, slots=True)
class Part:
    """A column of one file.

    Attributes:
        values: The Arrow array.
        typed: Whether the file declares the type; values of CSV files and of folders are text.
    """

    values: Any
    typed: bool


def parts_of(files: Files, entries: Iterable[Entry], columns: Sequence[str]) -> list[list[Part]]:
    """Return the parts of each column, in the order of the files."""
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

    Raises:
        InvalidInputError: The values cannot be compared.
    """
    import pyarrow as pa

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
    """Return the types that the parts may have in common, the best first."""
    import pyarrow as pa
    import pyarrow.compute

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
    odd = (pa.compute.match_substring_regex(_text(part.values), _NO_NUMBER) for part in parts)
    if any(pa.compute.any(column).as_py() for column in odd):
        return []
    return [pa.int64(), pa.float64(), pa.timestamp("us", "UTC")]


def _cast(values: Any, kind: Any) -> Any:
    """Return values in a type; a text without a zone is a time in UTC."""
    import pyarrow as pa
    import pyarrow.compute

    if pa.types.is_timestamp(kind) and pa.types.is_string(values.type):
        zoned = pa.compute.match_substring_regex(values, _ZONE)
        day = pa.compute.match_substring_regex(values, _DAY)
        ends = pa.compute.if_else(zoned, "", pa.compute.if_else(day, " 00:00:00Z", "Z"))
        values = pa.compute.binary_join_element_wise(values, ends, "")
    elif pa.types.is_timestamp(kind) and pa.types.is_date(values.type):
        values = values.cast(pa.timestamp(kind.unit))
    elif pa.types.is_floating(kind) and pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # Arrow's own conversion rounds: 7.00 is not 7.0
    return values.cast(kind)


def _in_utc(values: Any) -> Any:
    """Return times in UTC; a time without a zone is in UTC already. Other values are unchanged."""
    import pyarrow as pa

    kind = values.type
    return values.cast(pa.timestamp(kind.unit, "UTC")) if pa.types.is_timestamp(kind) else values


def _without_signed_zero(values: Any) -> Any:
    """Return floating-point values with 0.0 for -0.0, which equals it but has another hash."""
    import pyarrow as pa
    import pyarrow.compute

    return pa.compute.add(values, 0.0) if pa.types.is_floating(values.type) else values


def _text(values: Any) -> Any:
    """Return values as text; numbers have no zeros at their ends: 7.00 is 7."""
    import pyarrow as pa
    import pyarrow.compute

    text = _without_signed_zero(values).cast(pa.string())
    if not (pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)):
        return text
    text = pa.compute.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
    return pa.compute.replace_substring_regex(text, r"\.$", "")
