"""The Parquet files of a table as one Arrow table, independent of the writing library."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from graveler.errors import InvalidInputError
from graveler.model import Entry
from graveler.reads.partitions import folder_values, partition_columns
from graveler.reads.ports import View
from graveler.reads.schemas import text_partitions

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".parquet"
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits of whole numbers, by their bits."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


def read_arrow(view: View, files: Sequence[tuple[str, Entry]]) -> "pa.Table":
    """Return the rows of Parquet files; ``key=value`` folders of their paths become columns.

    Such a column has whole numbers if all its values are whole numbers, unless Spark wrote it as text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    partition_columns([relative for relative, _ in files])
    tables = []
    for relative, entry in files:
        with view.open(entry) as file:
            whole = pa.BufferReader(file.read())  # a whole read compares the checksum
        try:
            rows = pq.ParquetFile(whole, coerce_int96_timestamp_unit="us").read()
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"{entry.path}: not a Parquet file: {error}") from error
        tables.append((rows, dict(folder_values(relative))))
    numbers = _number_columns([values for _, values in tables]) - text_partitions(files)
    parts = [_with_columns(rows, values, numbers) for rows, values in tables]
    return parts[0] if len(parts) == 1 else concat_arrow(parts)


def concat_arrow(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return tables as one; if two types differ, the wider one is used."""
    import pyarrow as pa

    if len({table.schema for table in tables}) > 1:
        fields = [field for table in tables for field in table.schema]
        decimals = {field.name for field in fields if pa.types.is_decimal(field.type)}
        tables = [_loosened(table, decimals) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def _loosened(table: "pa.Table", decimals: Collection[str]) -> "pa.Table":
    """Return a table that Arrow combines with others: all fields may be null."""
    import pyarrow as pa

    def loose(field: "pa.Field", *, decimal: bool = False) -> "pa.Field":
        kind = field.type
        if decimal and pa.types.is_integer(kind):
            kind = pa.decimal128(_DIGITS[kind.bit_width], 0)
        elif pa.types.is_struct(kind):
            kind = pa.struct([loose(each) for each in kind])
        elif pa.types.is_list(kind):
            kind = pa.list_(loose(kind.value_field))
        elif pa.types.is_map(kind):
            kind = pa.map_(kind.key_field, loose(kind.item_field))
        return field.with_type(kind).with_nullable(True)

    fields = [loose(field, decimal=field.name in decimals) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _number_columns(paths: Sequence[Mapping[str, str | None]]) -> frozenset[str]:
    return frozenset(
        name
        for name in paths[0]
        if all((value := values[name]) is None or _NUMBER.fullmatch(value) for values in paths)
    )


def _with_columns(
    rows: "pa.Table", values: Mapping[str, str | None], numbers: frozenset[str]
) -> "pa.Table":
    import pyarrow as pa

    for name, value in values.items():
        kind = pa.int64() if name in numbers else pa.string()
        typed = int(value) if value is not None and name in numbers else value
        rows = rows.append_column(name, pa.repeat(pa.scalar(typed, kind), len(rows)))
    return rows
