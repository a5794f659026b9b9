"""The schema and the number of rows of a Parquet file, stored with its entry.

A reader that has the entries of a table has its schema, and opens no footer. Both values follow from the
content of the file and from its partition columns, so the same rows written again have the same entry.
The types of partition columns are stored too, because a path does not distinguish ``"01"`` from ``1``.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from graveler.errors import GravelerError, SchemaChangedError
from graveler.model import METADATA_BYTES, Entry
from graveler.objects.store import ObjectInfo, ObjectStore
from graveler.objects.verified import RangedFile
from graveler.parallel import thread_count
from graveler.process import Threads
from graveler.reads.files import read_range
from graveler.spark.ports import Files, partition_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from graveler.reads.stores import Stores

SCHEMA: Final = "graveler.schema"
"""Name in an entry's metadata: the columns of the file, as Spark's JSON."""
PARTITIONS: Final = "graveler.partitions"
"""Name in an entry's metadata: the partition columns of the write, as Spark's JSON."""
ROWS: Final = "graveler.rows"
"""Name in an entry's metadata: the number of rows of the file."""
PARQUET: Final = "parquet"
"""Spark's name of the format whose entries have these names."""

_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_MOST: Final = METADATA_BYTES // 2
"""Largest schema that is stored, in bytes; a reader gets a larger one from a footer."""

SchemaRule = Literal["same", "evolve"]


def described(
    store: ObjectStore, files: Sequence[ObjectInfo], schema: "StructType", partitions: Sequence[str]
) -> list[dict[str, str]]:
    """Return the metadata of the entries of Parquet files that were just written.

    Args:
        store: The store of the files.
        files: The files.
        schema: The schema of the frame.
        partitions: Its partition columns.
    """
    fields = {field["name"]: {**field, "nullable": True} for field in schema.jsonValue()["fields"]}
    last = [fields.pop(name) for name in partitions if name in fields]
    kept = {SCHEMA: _encoded(fields.values()), **({PARTITIONS: _encoded(last)} if last else {})}
    if sum(len(text.encode()) for text in kept.values()) > _MOST:
        kept = {}
    with Threads(store.put_threads or 1) as pool:
        return [{**kept, ROWS: str(rows)} for rows in pool.map(partial(_rows, store), files)]


def _rows(store: ObjectStore, info: ObjectInfo) -> int:
    """Return the number of rows in a footer."""
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - heavy: only where it is used

    with ParquetFile(RangedFile(info.size, partial(store.get_range, info.key))) as file:
        return int(file.metadata.num_rows)


def have_same_columns(stores: "Stores", entries: Sequence[Entry]) -> bool:
    """Return whether Parquet files have the same columns, by their footers.

    If a footer cannot be read, the result is False, and Spark reports the reason later.
    """
    threads = thread_count(None, stores.objects.put_threads)
    try:
        with Threads(threads) as pool:
            first, *others = pool.map(partial(_columns, stores), entries)
    except (GravelerError, OSError, ValueError):
        return False
    return all(other == first for other in others)


def _columns(stores: "Stores", entry: Entry) -> tuple[object, ...]:
    """Return the parts of a footer from which Spark finds a schema."""
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - heavy: only where it is used

    with ParquetFile(RangedFile(entry.size, partial(read_range, stores, entry))) as file:
        kept = file.metadata.metadata or {}
        return file.schema, file.schema_arrow, kept.get(_SPARK_SCHEMA)


def _encoded(fields: Iterable[object]) -> str:
    whole = {"type": "struct", "fields": list(fields)}
    return json.dumps(whole, separators=(",", ":"), sort_keys=True)


def stored_schema(files: Files) -> "StructType | None":
    """Return the schema of a table; None if a file has none or columns contradict each other.

    The schema has all columns, even those of only some files. Partition columns are last. A partition
    column whose type is not known is left to Spark.
    """
    from pyspark.sql.types import StructType  # noqa: PLC0415 - heavy: only where it is used

    newest: dict[tuple[str, str], datetime] = {}
    for _, entry in files:
        text = entry.metadata.get(SCHEMA)
        if text is None or entry.mtime is None:
            return None
        key = (text, entry.metadata.get(PARTITIONS, ""))
        newest[key] = max(newest.get(key, entry.mtime), entry.mtime)
    data: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for texts in sorted(newest, key=lambda texts: (newest[texts], texts), reverse=True):
        for columns, text in zip((data, last), texts, strict=True):
            for field in json.loads(text)["fields"] if text else ():
                if columns.setdefault(field["name"], field)["type"] != field["type"]:
                    return None
    if len({name.lower() for name in data}) < len(data):
        return None  # Spark's setting decides whether names that differ only in case are one column
    named = partition_columns([relative for relative, _ in files])
    fields = [*data.values(), *(last[name] for name in named if name in last)]
    return StructType.fromJson({"fields": fields}) if fields else None


def text_partitions(files: Files) -> frozenset[str]:
    """Return the partition columns that were text in the write of some files."""
    kept = {entry.metadata.get(PARTITIONS, "") for _, entry in files}
    fields = [field for text in kept if text for field in json.loads(text)["fields"]]
    return frozenset(field["name"] for field in fields if field["type"] == "string")


def rows_of(entries: Iterable[Entry]) -> int | None:
    """Return the number of rows of files; None if an entry lacks it."""
    counts = [entry.metadata.get(ROWS) for entry in entries]
    return None if None in counts else sum(int(count) for count in counts if count)


def check_schema(path: str, before: "StructType", now: "StructType", rule: SchemaRule) -> None:
    """Compare the schema of a frame with that of its table.

    Args:
        path: The table.
        before: Its schema.
        now: The schema of the frame.
        rule: ``same``: the same columns and types; ``evolve``: columns may be added or left out.

    Raises:
        SchemaChangedError: The schemas differ; the message names columns and types.
    """
    old, new = _types(before), _types(now)
    wrong = [
        f"{name!r} is {new[name]}, not {kind}"
        for name, kind in old.items()
        if new.get(name, kind) != kind
    ]
    if rule == "same":
        wrong += [f"{name!r} ({kind}) is missing" for name, kind in old.items() if name not in new]
        wrong += [f"{name!r} ({kind}) is new" for name, kind in new.items() if name not in old]
    if wrong:
        way = "or write with schema='evolve'" if rule == "same" else "or read and rewrite the table"
        raise SchemaChangedError(
            f"{path!r}: the schema has changed: {'; '.join(wrong)}: cast the columns, {way}"
        )


def _types(schema: "StructType") -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
