"""Tables of Arrow as one, and the types of partition columns."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits of whole numbers, by their bits."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


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


def number_columns(paths: Sequence[Mapping[str, str | None]]) -> frozenset[str]:
    """Return the partition columns whose values are all whole numbers."""
    return frozenset(
        name
        for name in paths[0]
        if all((value := values[name]) is None or _NUMBER.fullmatch(value) for values in paths)
    )
