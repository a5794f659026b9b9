"""The rows of a table of a catalog: planned by its statistics, read as any frame, and changed."""

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
from pyiceberg import expressions
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField

from graveler.base.arguments import texts
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames import reader
from graveler.frames.libraries import full_name, library_of
from graveler.frames.library import ParquetLibrary
from graveler.frames.source import Source
from graveler.frames.where import Condition, Dialect, Where, conditions
from graveler.model import Entry
from graveler.reads.view import Ref, View
from graveler.tables.catalog import TreeCatalog
from graveler.tables.files import TreeFiles
from graveler.tables.layout import POINTER, POINTERS, folder, names_of
from graveler.tables.merging.changes import manifests_of, schema_of

ex: Any = expressions


def table_source(view: View, name: str) -> "TableSource":
    """Return the rows of a table, as a view has them now. A run notes that it reads the table.

    Raises:
        ObjectNotFoundError: There is no such table.
    """
    place = folder(names_of(name) or ())
    view._note([place])
    if (head := getattr(view, "head", None)) is not None:  # of a branch, one commit
        view = Ref(view.repository, head, name=view.name)
    entry = next(iter(view.stat_many([place + POINTER])))
    if not place or entry is None:
        raise ObjectNotFoundError(f"no table {name!r} in the catalog of {view.name}")
    pointer = POINTERS.decode(view.get(entry))
    files = TreeFiles(view, place, pointer.metadata)
    metadata = files.metadata(view.uri(Entry("_", pointer.metadata, 0)))
    return TableSource(view, name, (), "iceberg", files_of=files, metadata=metadata)


@dataclass(frozen=True)
class TableSource(Source):
    """The rows of one version of a table of a catalog, and what is wanted of them."""

    files_of: TreeFiles = None  # type: ignore[assignment]  # after fields with defaults
    metadata: TableMetadata = None  # type: ignore[assignment]

    def read(
        self,
        as_: type | str | None = None,
        *,
        columns: Sequence[str] = (),
        where: Where | None = None,
        lazy: bool = False,
    ) -> Any:
        """Return the rows as a frame in memory."""
        names, wanted = texts(columns, "columns"), conditions(where)
        source = replace(self, columns=names, wanted=wanted)
        source.check_columns()
        return reader.frame_of(source, as_, lazy=lazy)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        return schema_to_pyarrow(self.metadata.schema(), include_field_ids=False)

    @property
    def data_entries(self) -> list[Entry]:
        """The entries of the data files."""
        return [self.files_of.new_input(task.file.file_path).entry for task in self.tasks()]

    @cached_property
    def _everything(self) -> pa.Table:
        """The rows that may be wanted, with the columns that decide it; `table` leaves out the others."""
        names = dict.fromkeys([*self.names, *(each.column for each in self.wanted)])
        return self.rows(self.tasks(), [*names], self._expression(pa.types.is_floating))

    def tasks(self, before: "TableSource | None" = None) -> list[FileScanTask]:
        """Return the data files that may have wanted rows, each with its delete files.

        Args:
            before: Leave out the files that this earlier version has.
        """
        some = self._expression(pa.types.is_float32)
        planner = ManifestGroupPlanner(self.metadata, self.files_of, some)
        now, old = self._manifests, before._manifests if before else {}
        new = [now[at] for at in now if at not in old or now[at].content == ManifestContent.DELETES]
        with _by_pyiceberg(self.path):
            known = self.files_of.live({at: old[at] for at in old if at not in now})
            return [each for each in planner.plan_files(new) if each.file.file_path not in known]

    def rows(self, tasks: Sequence[FileScanTask], columns: Any, some: Any = None) -> pa.Table:
        """Return columns of data files, without deleted rows."""
        kinds, some = self.metadata.schema().select(*columns), some or ex.AlwaysTrue()
        with _by_pyiceberg(self.path):
            return ArrowScan(self.metadata, self.files_of, kinds, some).to_table(tasks)

    def count(self, tasks: Sequence[FileScanTask] | None = None) -> int:
        """Return the number of rows; only data files with deleted rows are read."""
        tasks = self.tasks() if tasks is None else tasks
        marked = [task for task in tasks if task.delete_files]
        whole = sum(task.file.record_count for task in tasks if not task.delete_files)
        return int(whole + (len(self.rows(marked, self.schema.names[:1])) if marked else 0))

    def expression(self, wanted: Sequence[Condition]) -> Any:
        """Return conditions as PyIceberg has them."""
        return _IcebergDialect(self.schema).all(wanted, self.schema) or ex.AlwaysTrue()

    def _expression(self, without: Callable[[pa.DataType], bool]) -> Any:
        """Return the conditions on columns of other types than those that PyIceberg compares otherwise.

        It compares single floats as such, and lets Arrow decide by statistics, which leave out NaN.
        """
        kinds = [self.schema.field(each.column).type for each in self.wanted]
        pairs = zip(self.wanted, kinds, strict=True)
        return self.expression([each for each, kind in pairs if not without(kind)])

    @cached_property
    def fields(self) -> dict[str, NestedField]:
        """The fields of the schema by name."""
        return {field.name: field for field in self.metadata.schema().fields}

    def bound(self, field: NestedField, bounds: Mapping[int, bytes] | None) -> Any:
        """Return a column's bound of statistics as frames have it; None without one, or in Python."""
        raw, kind = (bounds or {}).get(field.field_id), cast(Any, field.field_type)
        try:
            value = None if raw is None else from_bytes(kind, raw)
            return pa.scalar(value, self.schema.field(field.name).type).as_py()
        except (ValueError, TypeError, OverflowError, struct.error):
            return None

    @cached_property
    def specs(self) -> dict[int, tuple[PartitionSpec, Schema]]:
        """The partition specs, each with a schema that has its columns."""
        known = self.metadata.specs()
        return {at: (spec, schema_of(self.metadata, spec)) for at, spec in known.items()}

    @cached_property
    def _manifests(self) -> dict[str, Any]:
        listed = manifests_of(self.metadata.current_snapshot(), self.files_of)
        return {each.manifest_path: each for each in listed}


def partition_rows(versions: Sequence[TableSource]) -> list[Counter[str]]:
    """Return the rows of the partitions of versions of a table, by the fields that all their files have."""
    found = [(each, task, _partition(each, task)) for each in versions for task in each.tasks()]
    shared = [key for key in found[0][2] if all(key in each for *_, each in found)] if found else []
    rows: dict[int, Counter[str]] = {id(version): Counter() for version in versions}
    known: dict[tuple[str, ...], int] = {}
    for version, task, values in found:
        files = (task.file.file_path, *sorted(each.file_path for each in task.delete_files))
        if files not in known:
            known[files] = version.count([task])
        rows[id(version)]["/".join(values[key] for key in shared)] += known[files]
    return [*rows.values()]


def _partition(version: TableSource, task: FileScanTask) -> dict[tuple[int, str], str]:
    """Return the values of a file's partition by their columns and transforms, as messages show them."""
    (spec, schema), found = version.specs[task.file.spec_id], {}
    for at, part in enumerate(spec.fields):
        if not isinstance(part.transform, VoidTransform):
            kind, column = schema.find_type(part.source_id), schema.find_column_name(part.source_id)
            text = part.transform.to_human_string(kind, task.file.partition[at])
            name = column if str(part.transform) == "identity" else f"{part.transform}({column})"
            found[part.source_id, str(part.transform)] = f"{name}={text}"
    return found


def change(branch: Any, name: str, how: str, frame: Any, where: Where | None = None) -> None:
    """Append, overwrite or delete rows of a table. Without a table, one is made for a frame."""
    names: Any = names_of(name)
    rows = None if frame is None else _rows(frame)
    catalog = TreeCatalog.of(branch)
    with _by_pyiceberg(name):
        if rows is not None and not catalog.table_exists(names):
            catalog.create_namespace_if_not_exists(names[:-1])
            with catalog.create_table_transaction(names, rows.schema) as made:
                made.append(rows)
            return
        given: list[Any] = [] if rows is None else [rows]
        if how != "append":
            given.append(table_source(branch, name).expression(conditions(where)))
        getattr(catalog.load_table(names), how)(*given)


def _rows(frame: Any) -> pa.Table:
    """Return a frame with the types that Iceberg has, and without an index that has no name."""
    library = library_of(type(frame))
    if not isinstance(library, ParquetLibrary):
        raise InvalidInputError(
            f"{full_name(type(frame))}: give a frame of pandas, polars, pyarrow or DuckDB; Spark writes "
            "tables of Iceberg through its catalog"
        )
    table = library.to_arrow(frame)
    fields = [each for each in table.schema if not each.name.startswith("__index_level_")]
    kinds = pa.schema([pa.field(each.name, _kind(each.type)) for each in fields])
    return table.select(kinds.names).cast(kinds)


def _kind(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind


@contextmanager
def _by_pyiceberg(name: str) -> Iterator[None]:
    """Refuse what PyIceberg cannot read or write, in its words."""
    try:
        yield
    except NoSuchTableError as error:
        raise ObjectNotFoundError(str(error)) from error
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InvalidInputError(
            f"table {name!r}: {error}; what PyIceberg cannot do, Spark does through its catalog"
        ) from error


def _compares(kind: Any) -> Any:
    return lambda column, value: kind(column.name, value)


class _Column:
    """A column whose comparisons are expressions of PyIceberg."""

    def __init__(self, name: str) -> None:
        self.name = name

    __eq__, __lt__, __le__ = map(_compares, (ex.EqualTo, ex.LessThan, ex.LessThanOrEqual))
    __gt__, __ge__ = map(_compares, (ex.GreaterThan, ex.GreaterThanOrEqual))


class _IcebergDialect(Dialect):
    """Expressions of PyIceberg."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def column(self, name: str) -> Any:
        return _Column(name)

    def literal(self, name: str, value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        scaled = value.quantize(Decimal(1).scaleb(-self._schema.field(name).type.scale))
        return scaled if scaled == value else value  # PyIceberg refuses more digits

    def is_null(self, column: Any) -> Any:
        return ex.IsNull(column.name)

    def is_nan(self, column: Any) -> Any:
        return ex.IsNaN(column.name)

    def is_in(self, name: str, values: Sequence[Any]) -> Any:
        return ex.In(name, {self.literal(name, value) for value in values})
