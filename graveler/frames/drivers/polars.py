"""Frames of polars."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from graveler.frames.library import ParquetLibrary
from graveler.frames.rows import PartitionRows, refuse_other_rows
from graveler.frames.source import Group, Source
from graveler.frames.where import Dialect


class PolarsLibrary(ParquetLibrary):
    """Eager and lazy frames of polars."""

    name = "polars"
    types = (pl.DataFrame, pl.LazyFrame)
    lazy = (pl.LazyFrame,)

    def write_parquet(self, frame: Any, file: Path) -> None:
        """Write a frame to a local file."""
        if isinstance(frame, pl.LazyFrame):
            frame.sink_parquet(file)
        else:
            frame.write_parquet(file)

    def to_arrow(self, frame: Any) -> pa.Table:
        """Return the rows of a frame."""
        return (frame.collect() if isinstance(frame, pl.LazyFrame) else frame).to_arrow()

    def from_arrow(self, table: pa.Table, kind: Any) -> Any:
        """Return an Arrow table as a frame, lazy if that is the type."""
        frame = pl.DataFrame(table)
        if kind is pl.LazyFrame:
            return frame.lazy()
        return kind(frame) if kind is not pl.DataFrame and self.handles(kind) else frame

    def scan(self, source: Source, kind: Any) -> Any:
        """Return a lazy frame."""
        del kind
        if not source.in_parts:
            return pl.DataFrame(source.table(verify=True)).lazy()
        groups = source.groups()
        if groups is None:
            frame = pl.scan_pyarrow_dataset(source.dataset())
        else:
            kinds = _kinds(source.schema)
            parts = [_scan(group, source.schema, kinds) for group in groups]
            frame = pl.concat(parts, how="vertical_relaxed")
            if source.wanted:
                rows = _PolarsDialect(frame).all(source.wanted, source.schema)
                frame = frame.filter(rows)
        return frame.select(source.names) if source.columns else frame

    def columns(self, frame: Any) -> Mapping[str, str]:
        """Return the type of each column."""
        return {name: str(kind) for name, kind in frame.collect_schema().items()}

    def concat(self, frames: Sequence[Any]) -> Any:
        """Return the rows of frames as one, with the columns of all."""
        return pl.concat(frames, how="diagonal_relaxed")  # empty frames have no types

    def split_rows(
        self, frame: Any, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the rows of each partition."""
        kind = frame.collect_schema()[column]
        masks = {key: _mask(column, kind, part) for key, part in rows.items()}
        outside = ~pl.any_horizontal(*masks.values()).fill_null(value=False)
        others = frame.lazy().select(outside.sum()).collect().item()
        if others:
            refuse_other_rows(column, others)
        return {key: frame.filter(mask) for key, mask in masks.items()}


def _kinds(schema: pa.Schema) -> Mapping[str, Any]:
    return pl.DataFrame(schema.empty_table()).schema


def _scan(group: Group, schema: pa.Schema, kinds: Mapping[str, Any]) -> pl.LazyFrame:
    """Return the rows of a group of files, with the columns of all."""
    frame = pl.scan_parquet(group.paths, glob=False, hive_partitioning=False)
    own = {field.name: field for field in group.schema if field.name not in group.values}
    if [*own.values()] == [*schema]:
        return frame
    return frame.select(
        (pl.col(name) if own.get(name) == schema.field(name) else pl.col(name).cast(kind))
        if name in own
        else pl.lit(group.values.get(name), kind).alias(name)
        for name, kind in kinds.items()
    )


class _PolarsDialect(Dialect):
    """Expressions of polars."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._kinds = frame.collect_schema()

    def column(self, name: str) -> Any:
        column = pl.col(name)
        return column.cast(pl.Float64) if self._kinds[name] == pl.Float32 else column

    def literal(self, name: str, value: Any) -> Any:
        return pl.lit(value, self._compared(name))

    def is_null(self, column: Any) -> Any:
        return column.is_null()

    def is_nan(self, column: Any) -> Any:
        return column.is_nan()

    def is_in(self, name: str, values: Sequence[Any]) -> Any:
        return pl.col(name).is_in(pl.Series(values, dtype=self._compared(name)).implode())

    def _compared(self, name: str) -> pl.DataType | None:
        kind = self._kinds[name]
        return kind if kind.is_temporal() else pl.Float64() if kind.is_float() else None


def _mask(column: str, kind: pl.DataType, rows: PartitionRows) -> pl.Expr:
    values = pl.col(column)
    if not isinstance(kind, pl.Datetime):
        return values.cast(pl.String) == rows.key
    start, end = rows.window(column)
    if kind.time_zone is None:
        values = pl.coalesce(  # a time that does not occur is an hour later
            time.dt.replace_time_zone(rows.zone, ambiguous="earliest", non_existent="null")
            for time in (values, values.dt.offset_by("1h"))
        )
    utc = values.dt.convert_time_zone("UTC")
    return (utc >= start) & (utc < end)
