"""Tables on Keep, which Spark's own file systems do not reach: tasks in Python read and write the files.

A task gets the addresses of the servers, the key of their system, and the records of the files that it
reads. It stores files in blocks and returns their records. The driver stores these when the job has
succeeded, so the files of a failed job never had names, and their blocks end by themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO
from uuid import UUID

from graveler.base.background import batches
from graveler.collections.objects import KeepObjects, SentObjects
from graveler.errors import InvalidInputError
from graveler.objects.store import ObjectInfo
from graveler.objects.verified import RangedFile
from graveler.reads.schemas import SPARK_SCHEMA, fields_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

_PARSED = ("csv", "json")
_COLUMNS = {
    "parquet": "",
    "binaryfile": "path string, length long, content binary",
    **dict.fromkeys((*_PARSED, "text"), "value string"),
}
_REFUSED = {
    *("multiline", "linesep", "encoding", "charset"),
    *("pathglobfilter", "modifiedbefore", "modifiedafter"),
}
_BATCH = 10_000
_TASK_BYTES = 64 << 20
_FILE_BYTES = 1 << 20
_GROUP_ROWS = 1 << 17
_MOST_PARTITIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Stores its rows as Parquet files; a task of another process calls it."""

    objects: SentObjects
    address: str
    schema: "pa.Schema"
    partition_by: Sequence[str]
    compression: str

    def __call__(self, rows: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the keys and the records of the files."""
        import pyarrow as pa
        from pyarrow import dataset
        from pyspark import TaskContext

        context = TaskContext.get()
        folders = pa.schema([self.schema.field(name) for name in self.partition_by])
        options = dataset.ParquetFileFormat().make_write_options(compression=self.compression)
        rows = (batch.cast(self.schema) for batch in rows)
        with TemporaryDirectory(prefix="graveler-") as place:
            dataset.write_dataset(
                pa.RecordBatchReader.from_batches(self.schema, rows),
                place,
                format="parquet",
                file_options=options,
                basename_template=self.name(context.partitionId() if context else 0),
                partitioning=dataset.partitioning(folders, flavor="hive"),
                max_partitions=_MOST_PARTITIONS,
                min_rows_per_group=_GROUP_ROWS,
                use_threads=False,
            )
            names = sorted(path for path in Path(place).rglob("*") if path.is_file())
            files = {f"{self.address}/{path.relative_to(place).as_posix()}": path for path in names}
            records = self.objects.put(files)
        yield pa.RecordBatch.from_arrays(
            [pa.array(records, pa.string()), pa.array(records.values(), pa.binary())],
            ["key", "record"],
        )

    def name(self, number: int) -> str:
        """Return the name of a task's files as Spark writes it, with ``{i}`` for their number."""
        job = UUID(sha256(self.address.encode()).hexdigest()[:32])
        return f"part-{number:05}-{job}-c{{i}}.{self.compression}.parquet"


def write_by_tasks(
    objects: KeepObjects,
    df: "DataFrame",
    address: str,
    format: str,
    partition_by: Sequence[str],
    options: Mapping[str, str],
) -> None:
    """Write a frame as Parquet files below an address, and record them."""
    from pyarrow import parquet
    from pyspark.sql.functions import expr

    others = {name.lower(): value for name, value in options.items()}
    compression = others.pop("compression", "snappy")
    if format.lower() != "parquet" or others:
        raise InvalidInputError(
            f"format {format!r}, options {others}: Spark's tasks write Parquet to {objects.root}, and take "
            "only the option compression: choose these, or `put` a file of another format"
        )
    footer = {SPARK_SCHEMA: df.drop(*partition_by).schema.json().encode()}
    names = ["`{}`".format(name.replace("`", "``")) for name in partition_by]
    texts = [expr(f"nullif(cast({name} as string), '')") for name in names]
    if names:
        df = df.withColumns(dict(zip(partition_by, texts, strict=True)))
        df = df.sortWithinPartitions(*names)
    schema = df.limit(0).toArrow().schema.with_metadata(footer)
    sent = objects.sent()
    task = WriteTask(sent, address, schema, partition_by, compression)
    rows = df.mapInArrow(task, "key string, record binary").collect()
    objects.record({key: bytes(record) for key, record in rows}, sent)
    if not rows and not names:  # as Spark's writer does: a table without rows has columns
        file = BytesIO()
        parquet.write_table(schema.empty_table(), file, compression=compression)
        objects.put(f"{address}/{task.name(0).format(i=0)}", file.getvalue())


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads files by their numbers; a task of another process calls it."""

    objects: SentObjects
    files: Sequence[tuple[str, bytes]]
    format: str
    schema: "pa.Schema"
    file: str

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the rows of the files."""
        files = dict(
            self.files[number] for batch in numbers for number in batch.column(0).to_pylist()
        )
        with closing(self.objects.open(files)) as objects:
            for key in files:
                with objects.open(key) as file:
                    small = objects.head(key).size <= _TASK_BYTES
                    yield from self._rows(objects.uri(key), BytesIO(file.read()) if small else file)

    def _rows(self, uri: str, file: BinaryIO) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyarrow import dataset

        if self.format == "parquet":
            fragment = dataset.ParquetFileFormat().make_fragment(file)
            rows = fragment.to_batches(schema=self.schema, use_threads=False, batch_readahead=1)
            at, path = (
                self.schema.get_field_index(self.file),
                {"file_path": uri.replace("%", "%25")},
            )
            if at >= 0:
                field = self.schema.field(at)
                rows = (
                    batch.set_column(at, field, pa.array([path] * batch.num_rows, field.type))
                    for batch in rows
                )
            yield from rows
        elif self.format == "binaryfile":
            content = file.read()
            row = {"path": uri, "length": len(content), "content": content}
            yield pa.RecordBatch.from_pylist([row], self.schema)
        else:
            lines = (line.removesuffix("\n") for line in TextIOWrapper(file, "utf-8"))
            for some in batches(lines, _BATCH):
                yield pa.RecordBatch.from_arrays([pa.array(some, pa.string())], schema=self.schema)


def frame_by_tasks(
    objects: KeepObjects,
    spark: "SparkSession",
    reader: "DataFrameReader",
    uris: Sequence[str],
    format: str,
    schema: "StructType | None",
    options: Mapping[str, str],
    file: str,
) -> "DataFrame":
    """Return the frame that a reader with this schema and these options would load from files.

    Spark parses the lines of text that tasks read. The column `file`, if it has a name, is Spark's column
    ``_metadata``, which tells the address of each row's file.
    """
    from pyspark.sql.types import StructType

    format = format.lower()
    refused = {*map(str.lower, options)} & _REFUSED
    if format not in _COLUMNS or refused:
        raise InvalidInputError(
            f"format {format!r}{''.join(f', option {name}' for name in sorted(refused))}: Spark's tasks read "
            f"Parquet, and lines of CSV, JSON and text, from {objects.root}: read the files without Spark, or "
            "through the gateway"
        )
    files = objects.records([uri.removeprefix(f"{objects.root}/") for uri in uris])
    columns: str | StructType = _COLUMNS[format]
    if format == "parquet":
        schema = schema or _in_footers(objects, [info for info, _ in files])
        columns = StructType.fromJson({"fields": fields_of(schema.json())})
        columns = columns.add(file, StructType().add("file_path", "string")) if file else columns
    empty = spark.createDataFrame([], columns)
    records = [(info.key, record) for info, record in files]
    task = ReadTask(objects.sent(), records, format, empty.toArrow().schema, file)
    size = sum(info.size + _FILE_BYTES for info, _ in files)
    numbers = spark.range(0, len(files), 1, min(len(files), size // _TASK_BYTES + 1))
    frame = numbers.mapInArrow(task, empty.schema)
    return getattr(reader, format)(frame) if format in _PARSED else frame


def _in_footers(objects: KeepObjects, files: Sequence[ObjectInfo]) -> "StructType":
    """Return all columns of files whose entries do not have them."""
    from pyarrow import unify_schemas
    from pyarrow.parquet import ParquetFile
    from pyspark.sql.pandas.types import from_arrow_schema

    schemas = []
    for info in files:
        with ParquetFile(RangedFile(info.size, partial(objects.get_range, info.key))) as file:
            schemas.append(file.schema_arrow)
    whole = unify_schemas(schemas, promote_options="permissive")
    return from_arrow_schema(whole, prefer_timestamp_ntz=True)
