"""Columns of several files in one type, so that their values can be compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from graveler.errors import InvalidInputError
from graveler.gates.checks.tables import table
from graveler.gates.footers import Files
from graveler.gates.statistics import kind_of
from graveler.model import Entry
from graveler.reads.bounded import check_expanded

_NO_NUMBER: Final = r"^\s*-?0[0-9]|[0-9]{16}"
"""Texts that stay text: they have leading zeros, or more digits than a double holds."""


@dataclass(frozen=True, slots=True)
class Part:
    """A column of one file.

    Attributes:
        values: The Arrow array.
        typed: Whether the file declares the type; the values of a CSV file are text.
    """

    values: Any
    typed: bool


def parts_of(files: Files, entries: Iterable[Entry], columns: Sequence[str]) -> list[list[Part]]:
    """Return the parts of each column, in the order of the files."""
    parts: list[list[Part]] = [[] for _ in columns]
    held = size = 0
    for entry in entries:
        rows = table(files, entry, columns, text=True)
        held, size = held + rows.nbytes, size + entry.size
        check_expanded(f"what is compared, up to {entry.path!r},", held, size)
        for number in range(len(columns)):
            parts[number].append(Part(rows.column(number), typed=kind_of(entry) != "csv"))
    return parts


def aligned(parts: Sequence[Part], name: str) -> list[Any]:
    """Return the arrays of a column in one type.

    That is the common type of the files that declare one, with times in UTC. Values of CSV files
    are converted to it; if no file declares a type, they are numbers if each is one and has no
    leading zero. If there is no such type, all values are text.

    Raises:
        InvalidInputError: The values cannot be compared.
    """
    import pyarrow as pa  # noqa: PLC0415 - table() has checked that it is installed

    plain = [Part(_in_utc(part.values), part.typed) for part in parts]
    for kind in _kinds(plain):
        try:
            return [_without_signed_zero(part.values.cast(kind)) for part in plain]
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
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute  # noqa: PLC0415

    declared = {part.values.type for part in parts if part.typed} - {pa.null()}
    if declared:
        try:
            schemas = [pa.schema([("", kind)]) for kind in declared]
            kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return []
        return [] if pa.types.is_nested(kind) else [kind]
    odd = (pa.compute.match_substring_regex(_text(part.values), _NO_NUMBER) for part in parts)
    if any(pa.compute.any(column).as_py() for column in odd):
        return []
    return [pa.int64(), pa.float64()]


def _in_utc(values: Any) -> Any:
    """Return times in UTC; a time without a zone is in UTC already. Other values are unchanged."""
    import pyarrow as pa  # noqa: PLC0415

    kind = values.type
    return values.cast(pa.timestamp(kind.unit, "UTC")) if pa.types.is_timestamp(kind) else values


def _without_signed_zero(values: Any) -> Any:
    """Return floating-point values with 0.0 for -0.0, which equals it but has another hash."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute  # noqa: PLC0415

    return pa.compute.add(values, 0.0) if pa.types.is_floating(values.type) else values


def _text(values: Any) -> Any:
    """Return values as text; whole floating-point numbers have no .0, as in other files."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute  # noqa: PLC0415

    text = _without_signed_zero(values).cast(pa.string())
    whole = pa.types.is_floating(values.type)
    return pa.compute.replace_substring_regex(text, r"\.0$", "") if whole else text
