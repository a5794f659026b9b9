"""Relations of DuckDB."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from graveler.errors import InvalidInputError
from graveler.frames.drivers.arrow import ArrowLibrary
from graveler.frames.library import ParquetLibrary
from graveler.frames.rows import PartitionRows
from graveler.frames.source import Group, Source
from graveler.frames.where import Dialect


class DuckdbLibrary(ParquetLibrary):
    """Relations of a connection of DuckDB; they are lazy."""

    name = "duckdb"
    types = (duckdb.DuckDBPyRelation,)
    lazy = types

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a relation to a local file."""
        frame.write_parquet(str(file))

    def to_arrow(self, frame: Any) -> pa.Table:
        """Return the rows of a relation."""
        table = frame.arrow()
        return table if isinstance(table, pa.Table) else table.read_all()

    def from_arrow(self, table: pa.Table, kind: Any) -> Any:
        """Return a table as a relation of the default connection."""
        del kind
        return duckdb.default_connection().from_arrow(table)

    def scan(self, source: Source, kind: Any) -> Any:
        """Return a relation of the default connection, so that its queries can name it."""
        del kind
        check_names(source.path, source.schema.names)
        groups = source.groups()
        connection = duckdb.default_connection()
        if groups is None:
            frame = connection.from_arrow(source.dataset())
        else:
            whole = connection.from_arrow(_plain(source.schema).empty_table())
            types = dict(zip(whole.columns, map(str, whole.types), strict=True))
            parts = [_select(group, source.schema, types) for group in groups]
            frame = connection.sql(" UNION ALL ".join(parts))
            rows = _DuckdbDialect().all(source.wanted, source.schema)
            frame = frame if rows is None else frame.filter(rows)
        return (
            frame.select(*map(duckdb.ColumnExpression, source.names)) if source.columns else frame
        )

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return dict(zip(frame.columns, map(str, frame.types), strict=True))

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of relations as one, with the columns of all."""
        return self.from_arrow(ArrowLibrary().concat([*map(self.to_arrow, frames)]), None)

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        parts = ArrowLibrary().split_rows(self.to_arrow(frame), column, rows)
        return {key: self.from_arrow(part, None) for key, part in parts.items()}


def check_names(table: str, names: Sequence[str]) -> None:
    """Refuse columns whose names differ only in case: DuckDB takes one for the other."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInputError(
                f"{table!r}: DuckDB takes the columns {other!r} and {name!r} for one: read the table "
                "with another library"
            )


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema with texts in place of categories, whose values DuckDB wants to know first."""
    kinds = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(kinds)


def _select(group: Group, schema: pa.Schema, types: Mapping[str, str]) -> str:
    """Return a query of the files of a group, with the columns of all."""
    columns = []
    for name, kind in types.items():
        value = f"'{_text(group.values[name])}'" if group.values.get(name) is not None else "NULL"
        own = group.schema.field(name) if name in group.schema.names else None
        column = _quoted(name) if own is not None and name not in group.values else value
        same = column != value and own == schema.field(name)
        columns.append(column if same else f"CAST({column} AS {kind}) AS {_quoted(name)}")
    paths = ", ".join(f"'{_text(path)}'" for path in group.paths)
    return f"SELECT {', '.join(columns)} FROM read_parquet([{paths}], hive_partitioning = false)"  # noqa: S608 - quoted


def _text(value: Any) -> str:
    return str(value).replace("'", "''")


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


class _DuckdbDialect(Dialect):
    """Expressions of DuckDB."""

    def column(self, name: str) -> Any:
        return duckdb.ColumnExpression(name)

    def literal(self, name: str, value: Any) -> Any:
        del name
        return duckdb.ConstantExpression(value)

    def is_null(self, column: Any) -> Any:
        return column.isnull()

    def is_nan(self, column: Any) -> Any:
        return duckdb.FunctionExpression("isnan", column)

    def is_in(self, name: str, values: Sequence[Any]) -> Any:
        return self.column(name).isin(*map(duckdb.ConstantExpression, values))

    def number(self) -> Any:
        return duckdb.FunctionExpression("random")
