"""Tables on Keep, which Spark's own file systems do not reach: tasks in Python read and write the files.

A task gets the addresses of the servers, the key of their system, and the records of the files that it
reads. It stores files in blocks and returns their records. The driver stores these when the job has
succeeded, so the files of a failed job never had names, and their blocks end by themselves.
"""

import json
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
from graveler.base.clock import Clock
from graveler.collections.objects import KeepObjects, SentObjects
from graveler.errors import InvalidInputError
from graveler.objects.store import ObjectInfo
from graveler.objects.verified import RangedFile
from graveler.reads.schemas import SPARK_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

_OTHER_LINES = {"multiline", "linesep", "encoding", "charset"}
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
    clock: Clock,
    df: "DataFrame",
    address: str,
    format: str,
    partition_by: Sequence[str],
    options: Mapping[str, str],
) -> None:
    """Write a frame as Parquet files below an address, and record them."""
    from pyarrow import parquet
    from pyspark.sql.functions import col, expr

    others = {name: value for name, value in options.items() if name.lower() != "compression"}
    compression = {name.lower(): value for name, value in options.items()}.get(
        "compression", "snappy"
    )
    if format.lower() != "parquet" or others:
        raise InvalidInputError(
            f"format {format!r}, options {others}: Spark's tasks write Parquet to {objects.root}, and take "
            "only the option compression: choose these, or `put` a file of another format"
        )
    footer = {SPARK_SCHEMA: df.drop(*partition_by).schema.json().encode()}
    names = [f"`{name.replace('`', '``')}`" for name in partition_by]
    if names:
        texts = {
            name: expr(f"nullif(cast({quoted} as string), '')")
            for name, quoted in zip(partition_by, names, strict=True)
        }
        df = df.withColumns(texts).sortWithinPartitions(*map(col, names))
    schema = _arrow(df.sparkSession, df.schema).with_metadata(footer)
    task = WriteTask(objects.sent(), address, schema, partition_by, compression)
    began = clock.now()
    rows = df.mapInArrow(task, "key string, record binary").collect()
    objects.record({key: bytes(record) for key, record in rows}, began)
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

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield the rows of the files."""
        files = dict(
            self.files[number] for batch in numbers for number in batch.column(0).to_pylist()
        )
        with closing(self.objects.open(files)) as objects:
            for key in files:
                with objects.open(key) as file:
                    yield from self._rows(objects.uri(key), file)

    def _rows(self, uri: str, file: BinaryIO) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyarrow import dataset

        if self.format == "parquet":
            fragment = dataset.ParquetFileFormat().make_fragment(file)
            yield from fragment.to_batches(schema=self.schema, use_threads=False, batch_readahead=1)
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
) -> "DataFrame":
    """Return the frame that a reader with these options and this schema would load from files.

    Tasks read the lines of text, which Spark parses.
    """
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

    format = format.lower()
    parse = {
        "csv": reader.csv,
        "json": reader.json,
        "text": None,
        "parquet": None,
        "binaryfile": None,
    }
    found = {*map(str.lower, options)} & _OTHER_LINES
    if format not in parse or found:
        raise InvalidInputError(
            f"format {format!r}{', options ' * bool(found)}{', '.join(found)}: Spark's tasks read Parquet, and lines of CSV, JSON and text "
            f"from {objects.root}: open the files with Python, or through the gateway"
        )
    files = objects.records([uri.removeprefix(f"{objects.root}/") for uri in uris])
    if format == "parquet":
        fields = schema or _in_footer(objects, files[0][0])
        read = StructType([StructField(field.name, field.dataType) for field in fields])
    elif format == "binaryfile":
        kinds = {"path": StringType(), "length": LongType(), "content": BinaryType()}
        read = StructType([StructField(name, kind) for name, kind in kinds.items()])
    else:
        read = StructType([StructField("value", StringType())])
    size = sum(info.size + _FILE_BYTES for info, _ in files)
    tasks = min(len(files), size // _TASK_BYTES + 1)
    numbers = spark.range(0, len(files), 1, tasks)
    work = ReadTask(
        objects.sent(),
        [(info.key, record) for info, record in files],
        format,
        _arrow(spark, read),
    )
    frame = numbers.mapInArrow(work, read)
    parser = parse[format]
    return frame if parser is None else parser(frame)


def _in_footer(objects: KeepObjects, info: ObjectInfo) -> "StructType":
    """Return the schema that Spark finds in the footer of a file."""
    from pyarrow.parquet import ParquetFile
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    with ParquetFile(RangedFile(info.size, partial(objects.get_range, info.key))) as file:
        stored = (file.schema_arrow.metadata or {}).get(SPARK_SCHEMA)
        if stored:
            return StructType.fromJson(json.loads(stored))
        return from_arrow_schema(file.schema_arrow)


def _arrow(spark: "SparkSession", schema: "StructType") -> "pa.Schema":
    return spark.createDataFrame([], schema).toArrow().schema
