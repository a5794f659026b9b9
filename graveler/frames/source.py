"""The files of a table, of any format, as Arrow's table or as a data set that is read in part.

Files that are read whole are compared with the checksums of their entries. Of files that are read in part,
size and version are compared with each read, and the footer with the number of rows of the entry, if
it has one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from glob import has_magic
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet as pq

from graveler.base.background import Threads
from graveler.errors import CorruptionError, GravelerError, InvalidInputError
from graveler.frames.formats import FORMATS, PARQUET
from graveler.frames.union import concat_arrow, number_columns
from graveler.frames.where import Condition, Dialect
from graveler.model import Entry
from graveler.objects.verified import RangedFile
from graveler.reads.partitions import Files, folder_values, partition_columns
from graveler.reads.ports import View
from graveler.reads.schemas import ROWS, stated_rows, text_partitions

_LOCAL = "file://"
_MOST_GROUPS = 256
_READERS = 8
_UNIT = "us"
_END_BYTES = 64 << 10


class Group(NamedTuple):
    """Local Parquet files in a row with the same columns and the same partition."""

    paths: list[str]
    schema: pa.Schema
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """The files of a table, and what is wanted of them."""

    view: View
    path: str
    files: Files
    format: str
    columns: tuple[str, ...] = ()
    wanted: tuple[Condition, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of all files, partition columns last; of different types the widest."""
        if not self.in_parts:
            return self._everything.schema
        return self._with_partitions(
            self._united([each.empty_table() for each in dict.fromkeys(self._schemas)])
        ).schema

    @property
    def names(self) -> list[str]:
        """The wanted columns."""
        return [*self.columns] or self.schema.names

    def check_columns(self) -> None:
        """Refuse columns that no file has, and a column that is named twice."""
        named = [*self.columns, *(each.column for each in self.wanted)]
        missing = [name for name in named if name not in self.schema.names]
        if missing:
            raise InvalidInputError(
                f"{self.path!r} has no {', '.join(map(repr, missing))}: choose of "
                f"{', '.join(self.schema.names)}"
            )
        if len({*self.columns}) < len(self.columns):
            raise InvalidInputError(f"columns: {', '.join(self.columns)}: name each column once")

    @property
    def in_parts(self) -> bool:
        """Whether files of this format can be read in part."""
        return self.format in _FOOTERS

    @cached_property
    def filter(self) -> ds.Expression | None:
        """The conditions on the rows."""
        if not self.wanted:
            return None
        dialect = ArrowDialect()
        expression: ds.Expression = dialect.all(self.wanted, self.schema)
        kinds = [self.schema.field(each.column).type for each in self.wanted]
        if any(map(pa.types.is_floating, kinds)):  # else count_rows counts NaN by the statistics
            expression = expression & (dialect.number() >= 0)
        return expression

    def table(self, *, verify: bool) -> pa.Table:
        """Return the wanted rows and columns."""
        if self.in_parts and not verify and (self.columns or self.wanted):
            return self.dataset().to_table(columns=self.names)
        if not (self.columns or self.wanted):
            return self._everything
        table = ds.dataset(self._everything)
        return table.to_table(columns=self.names, filter=self.filter)

    def scanner(self) -> ds.Scanner:
        """Return a scanner of the wanted rows and columns."""
        return self.dataset().scanner(columns=self.names)

    def dataset(self) -> ds.Dataset:
        """Return the wanted rows as a data set, which is read in part if the format allows it."""
        whole = self._in_parts() if self.in_parts else ds.dataset(self._everything)
        return whole if self.filter is None else whole.filter(self.filter)

    def _in_parts(self) -> ds.Dataset:
        form = _DATASETS[self.format]
        fragments = [
            form.make_fragment(*self._place(entry), partition_expression=_is_in(values))
            for (_, entry), values in zip(self.files, self._values, strict=True)
        ]
        return ds.FileSystemDataset(fragments, self.schema, form)

    def groups(self) -> list[Group] | None:
        """Return the files in groups for a library that reads local Parquet files itself, else None."""
        found = [local_path(self.view, entry) for _, entry in self.files]
        paths = [path for path in found if path is not None]
        if self.format != PARQUET or len(paths) < len(found):
            return None
        each = zip(paths, self._schemas, self._values, strict=True)
        groups = [
            Group([path for path, *_ in group], schema, values)
            for (schema, values), group in groupby(each, key=lambda file: file[1:])
        ]
        return groups if len(groups) <= _MOST_GROUPS else None

    def _place(self, entry: Entry) -> tuple[Any, Any]:
        path = local_path(self.view, entry)
        if path is not None:
            return path, pyarrow.fs.LocalFileSystem()
        return pa.PythonFile(_ranged(self.view, entry), mode="r"), None

    @cached_property
    def _schemas(self) -> list[pa.Schema]:
        """The columns in the footer of each file."""
        read = partial(_schema, self.view, self.format)
        entries = [entry for _, entry in self.files]
        if all(local_path(self.view, entry) for entry in entries):
            return [*map(read, entries)]
        with Threads(_READERS) as pool:
            return [*pool.map(read, entries)]

    @cached_property
    def _everything(self) -> pa.Table:
        """All rows of all files, whose bytes are verified."""
        contents = self.view.get_many(entry for _, entry in self.files)
        tables = []
        for (entry, content), values in zip(contents, self._values, strict=True):
            with reading(entry, self.format):
                table = _PARSERS[self.format](_unpacked(entry, content))
            tables.append(self._with_partitions(table, values))
        if len(tables) == 1:
            return tables[0]
        whole, last = self._united(tables), [*self._values[0]]
        first = [name for name in whole.column_names if name not in last]
        return whole.select([*first, *last]) if last else whole

    def _united(self, tables: Sequence[pa.Table]) -> pa.Table:
        try:
            return concat_arrow(tables)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"{self.path!r}: its files have columns of one name that are not read as one: {error}"
            ) from error

    @cached_property
    def _values(self) -> list[dict[str, Any]]:
        """The values of the partition columns of each file.

        A column has whole numbers if all its values are whole numbers, unless Spark wrote it as text.
        """
        relative = [name for name, _ in self.files]
        partition_columns(relative)
        texts = [dict(folder_values(name)) for name in relative]
        numbers = number_columns(texts) - text_partitions(self.files)
        return [
            {name: int(text) if name in numbers and text else text for name, text in each.items()}
            for each in texts
        ]

    def _with_partitions(
        self, table: pa.Table, values: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """Return a table with the partition columns, of these values."""
        for name in self._values[0]:
            kinds = {type(each[name]) for each in self._values} - {type(None)}
            kind = pa.int64() if kinds == {int} else pa.string()
            value = pa.scalar((values or {}).get(name), kind)
            table = table.drop_columns(name) if name in table.column_names else table
            table = table.append_column(name, pa.repeat(value, len(table)))
        return table


def local_path(view: View, entry: Entry) -> str | None:
    """Return the path of an entry's file if it is a local one that no library takes for a pattern."""
    uri = view.uri(entry)
    path = uri.removeprefix(_LOCAL)
    return path if uri.startswith(_LOCAL) and not has_magic(path) else None


def _ranged(view: View, entry: Entry) -> RangedFile:
    return RangedFile(entry.size, partial(view.read_range, entry))


def _is_in(values: Mapping[str, Any]) -> ds.Expression:
    whole = ds.scalar(True)
    for name, value in values.items():
        column = ds.field(name)
        whole = whole & (column.is_null() if value is None else column == value)
    return whole


@contextmanager
def reading(entry: Entry, format: str) -> Iterator[None]:
    """Raise InvalidInputError if the block cannot read an entry's file."""
    try:
        yield
    except GravelerError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(
            f"{entry.path}: not a {FORMATS[format].title} file: {error}; name another by format=, or "
            "begin the name of a file beside the table with _"
        ) from error


def _schema(view: View, format: str, entry: Entry) -> pa.Schema:
    """Return the columns of a file by its footer, which is compared with the entry."""
    with reading(entry, format):
        rows, schema = _FOOTERS[format](view, entry)
    known = stated_rows(entry.metadata.get(ROWS, ""))
    if known is not None and rows is not None and known != rows:
        raise CorruptionError(
            f"{entry.path!r}: its footer has {rows} rows, and its entry has {known}: "
            "`graveler fsck --checksums` compares its bytes"
        )
    return schema


def _parquet_footer(view: View, entry: Entry) -> tuple[int | None, pa.Schema]:
    start = max(entry.size - _END_BYTES, 0)
    end = view.read_range(entry, start, _END_BYTES)
    length = int.from_bytes(end[-8:-4], "little") + 8  # then its length and the name of the format
    if len(end) < length <= entry.size:
        end = view.read_range(entry, entry.size - length, length)
    with pq.ParquetFile(pa.BufferReader(end), coerce_int96_timestamp_unit=_UNIT) as opened:
        return opened.metadata.num_rows, opened.schema_arrow


def _arrow_footer(view: View, entry: Entry) -> tuple[int | None, pa.Schema]:
    return None, pa.ipc.open_file(_ranged(view, entry)).schema


def _parquet(content: pa.Buffer) -> pa.Table:
    return pq.ParquetFile(content, coerce_int96_timestamp_unit=_UNIT).read()


def _csv(content: pa.NativeFile) -> pa.Table:
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(content, parse_options=parsing)
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):  # an empty field is null, as in columns of other types
            texts = table.column(number)
            filled = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
            table = table.set_column(number, field, filled)
    return table


def _json(content: pa.NativeFile) -> pa.Table:
    lines = content.read()
    return pyarrow.json.read_json(pa.BufferReader(lines)) if lines.strip() else pa.table({})


_DATASETS: Mapping[str, ds.FileFormat] = {
    "parquet": ds.ParquetFileFormat(coerce_int96_timestamp_unit=_UNIT),
    "arrow": ds.IpcFileFormat(),
}
_FOOTERS: Mapping[str, Callable[[View, Entry], tuple[int | None, pa.Schema]]] = {
    "parquet": _parquet_footer,
    "arrow": _arrow_footer,
}
_PARSERS: Mapping[str, Callable[[Any], pa.Table]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
    "arrow": lambda file: pa.ipc.open_file(file).read_all(),
}


def _unpacked(entry: Entry, content: bytes) -> Any:
    file = pa.BufferReader(content)
    return pa.CompressedInputStream(file, "gzip") if entry.path.lower().endswith(".gz") else file


class ArrowDialect(Dialect):
    """Expressions of Arrow's data sets."""

    def column(self, name: str) -> Any:
        """Return a column."""
        return ds.field(name)

    def literal(self, name: str, value: Any) -> Any:
        """Return a value to compare with a column."""
        del name
        return value

    def is_null(self, column: Any) -> Any:
        """Return whether a column is null."""
        return column.is_null()

    def is_nan(self, column: Any) -> Any:
        """Return whether a column is NaN."""
        return pc.is_nan(column)

    def is_in(self, name: str, values: Sequence[Any]) -> Any:
        """Return whether a column has one of the values."""
        return ds.field(name).isin(pa.array(values))

    def number(self) -> Any:
        """Return a random number from 0 on."""
        return pc.Expression._call("random", [], pc.RandomOptions())
