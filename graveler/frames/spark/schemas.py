"""The schema and the number of rows of a file, stored with its entry, and the schema of all entries.

A reader that has the entries of a table has its schema, and opens no footer. The values follow from the
content of the file and from its partition columns, so the same rows written again have the same entry.
Entries of ORC files have no number of rows, and those of other formats the partition columns only.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from graveler.base.background import Threads
from graveler.errors import GravelerError, SchemaChangedError
from graveler.model import METADATA_BYTES, Entry
from graveler.objects.store import ObjectInfo, ObjectStore
from graveler.objects.verified import RangedFile
from graveler.reads.partitions import Files, folder_values, partition_columns
from graveler.reads.ports import View
from graveler.reads.schemas import (
    PARTITIONS,
    ROWS,
    SCHEMA,
    SPARK_SCHEMA,
    Field,
    Kept,
    encoded,
    fields_of,
    fits,
    kept_of,
    merge_fields,
    simple_name,
    stated_rows,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PARQUET = "parquet"
"""Spark's name of the format whose entries have these names."""
TYPED = (PARQUET, "orc")
"""Spark's names of the formats whose files have types; entries of others have partition columns only."""

_READERS = 8
_MOST = METADATA_BYTES // 2
"""Largest schema that is stored, in bytes; a reader gets a larger one from a footer."""

SchemaRule = Literal["same", "evolve"]


def described(
    store: ObjectStore, format: str, files: Sequence[ObjectInfo], kept: Kept
) -> list[dict[str, str]]:
    """Return the metadata of the entries of files that were just written."""
    pairs = {name: text for name, text in zip((SCHEMA, PARTITIONS), kept, strict=True) if text}
    if sum(len(text.encode()) for text in pairs.values()) > _MOST:
        pairs = {}
    if format != PARQUET:
        return [pairs] * len(files)
    with Threads(store.put_threads or 1) as pool:
        return [{**pairs, ROWS: str(rows)} for rows in pool.map(partial(_rows, store), files)]


def _rows(store: ObjectStore, info: ObjectInfo) -> int:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(RangedFile(info.size, partial(store.get_range, info.key))) as file:
        return int(file.metadata.num_rows)


def have_same_columns(view: View, entries: Sequence[Entry]) -> bool:
    """Return whether Parquet files have the same columns, by their footers.

    If a footer cannot be read, the result is False, and Spark reports the reason later.
    """
    try:
        with Threads(_READERS) as pool:
            first, *others = pool.map(partial(_columns, view), entries)
    except (GravelerError, OSError, ValueError):
        return False
    return all(other == first for other in others)


def _columns(view: View, entry: Entry) -> tuple[object, ...]:
    """Return the parts of a footer from which Spark finds a schema."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(RangedFile(entry.size, partial(view.read_range, entry))) as file:
        kept = file.metadata.metadata or {}
        return file.schema, file.schema_arrow, kept.get(SPARK_SCHEMA)


def kept_by(schema: "StructType", partitions: Sequence[str], format: str) -> Kept:
    """Return the columns and the partition columns of a frame as its entries keep them."""
    fields = {field["name"]: field for field in fields_of(schema.json())}
    last = [fields.pop(name) for name in partitions if name in fields]
    typed = format in TYPED
    return encoded(fields.values()) if typed else "", encoded(last) if last or not typed else ""


def _newest_first(files: Files) -> list[Kept]:
    newest: dict[Kept, datetime] = {}
    for _, entry in files:
        time = entry.mtime or datetime.min.replace(tzinfo=UTC)
        kept = kept_of(entry)
        newest[kept] = max(newest.get(kept, time), time)
    return sorted(newest, key=lambda kept: (newest[kept], kept), reverse=True)


def stored_schemas(files: Files) -> "dict[Kept, StructType | None]":
    """Return the schema to read files with, by what their entries keep; None for entries without one.

    It is the same for all files, with all columns, even those of only some files, or if columns
    contradict each other, that of each file. Partition columns are last. A partition column is text if its
    types contradict each other. It is left to Spark if its type is not known.
    """
    from pyspark.sql.types import StructType

    newest = _newest_first(files)
    versions = [fields_of(schema) for schema, _ in newest]
    whole, faults = merge_fields(versions)
    if len({field["name"].lower() for field in whole}) < len(whole):
        faults = [("", None, None)]  # a setting of Spark decides whether they are one column
    last = partition_fields(files)
    schema = StructType.fromJson({"fields": [*whole, *last]})
    return {
        kept: None
        if not kept[0]
        else schema
        if not faults
        else StructType.fromJson({"fields": [*own, *last]})
        for kept, own in zip(newest, versions, strict=True)
    }


def stored_schema(files: Files) -> "StructType | None":
    """Return the schema of a table; None if a file has none or columns contradict each other."""
    first, *others = stored_schemas(files).values()
    return None if any(other != first for other in others) else first


def partition_fields(files: Files) -> list[Field]:
    """Return the partition columns of a table as they were written; none if no file names them.

    A column is text if its types contradict each other, or if the value of a file that does not name it
    is not of its type.
    """
    kept = [partitions for _, partitions in _newest_first(files)]
    fields, faults = merge_fields(map(fields_of, kept))
    others = [
        pair for name, entry in files if not kept_of(entry)[1] for pair in folder_values(name)
    ]
    text = {name for name, *_ in faults}
    known = {field["name"]: field for field in fields}
    text |= {
        name for name, value in others if name in known and not fits(value, known[name]["type"])
    }
    named = partition_columns([relative for relative, _ in files])
    return [
        {**known[name], "type": "string"} if name in text else known[name]
        for name in named
        if name in known
    ]


def check_merge(path: str, files: Iterable[Entry], new: Iterable[Kept]) -> None:
    """Refuse columns that Spark cannot read together with those of a table."""
    versions = [*dict.fromkeys([*map(kept_of, files), *new])]
    faults = [
        fault
        for texts in zip(*versions, strict=True)
        for fault in merge_fields(map(fields_of, texts))[1]
    ]
    if faults:
        shown = "; ".join(
            f"{name!r} is "
            + " and ".join(simple_name(kind) for kind in (right, left) if kind is not None)
            for name, left, right in {fault[0]: fault for fault in faults}.values()
        )
        raise SchemaChangedError(
            f"{path!r}: Spark does not read these columns as one table: {shown}: cast the columns, or "
            "overwrite the whole table by mode 'overwrite' and partition_overwrite='static', or write to "
            "another folder"
        )


def rows_of(entries: Iterable[Entry]) -> int | None:
    """Return the number of rows of files; None if an entry lacks it."""
    counts = [stated_rows(entry.metadata.get(ROWS, "")) for entry in entries]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def check_schema(path: str, before: "StructType", now: "StructType", rule: SchemaRule) -> None:
    """Compare the schema of a frame with that of its table."""
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
