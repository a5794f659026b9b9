"""Writing the next version of a table: Spark writes files, and the driver links them.

No file is copied or renamed. A failed job leaves files that no path names, and garbage collection
removes them. Readers of the branch see the new files only when all of them are staged.
"""

import hashlib
import os
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from graveler.base.arguments import PathText, choice, instance, optional, path_text, text, texts
from graveler.base.background import Threads
from graveler.base.local_files import DurableFolders, storage_errors
from graveler.base.names import check_path
from graveler.collections.objects import KeepObjects
from graveler.errors import AlreadyExistsError, InvalidInputError
from graveler.frames.library import MODES
from graveler.frames.pruning import in_partitions_of
from graveler.frames.spark.keep import write_by_tasks
from graveler.frames.spark.loading import spark_uri
from graveler.frames.spark.reader import read
from graveler.frames.spark.schemas import (
    SchemaRule,
    check_merge,
    check_schema,
    described,
    kept_by,
    stored_schema,
)
from graveler.frames.spark.session import time_zone
from graveler.model import Entry, seal_of
from graveler.objects.store import ObjectInfo, ObjectStore
from graveler.reads.partitions import (
    check_format,
    is_hidden,
    is_in_table,
    partition_columns,
    refuse_delta,
    table_entries,
)
from graveler.reads.ports import Target, View
from graveler.reads.schemas import OVERWRITES, WHOLE, Kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_LOCAL = "file://"
_THREADS = 4


def settle(store: ObjectStore, files: Sequence[ObjectInfo]) -> list[str]:
    """Make the files durable; return the computed checksum of each, or "".

    Spark does neither for files on a disk. An object store makes files durable itself. Its files have
    new addresses and are not read again, so their checksums are "".
    """
    if not store.root.startswith(_LOCAL):
        return [""] * len(files)
    root = Path(store.root.removeprefix(_LOCAL))
    paths = [root / info.key for info in files]
    with storage_errors(f"read what Spark wrote below {store.root}"):
        with Threads(_THREADS) as pool:
            checksums = list(pool.map(_settle, paths))
        for folder in {path.parent for path in paths}:
            DurableFolders(root).sync(folder)
    return checksums


def _settle(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return f"sha256:{digest}"


SaveMode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]
PartitionOverwrite = Literal["dynamic", "static"]

SAVE_MODES = (*MODES, "errorifexists", "ignore")
"""The modes of Spark's writer."""
_CAREFUL = ("error", "errorifexists", "ignore")
_MARK = 16
_MOMENT = (
    "concat(cast(timestamp_ntz'1970-01-01' + make_dt_interval(0, 0, 0, "
    "cast(unix_micros({}) as decimal(20, 0)) / 1000000) as string), 'Z')"
)
"""A time as text with the zone UTC. Spark itself writes the clock of the session, which shows an hour twice."""
_JOB = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=[-.])")


class WriteOptions(TypedDict, total=False):
    """The keyword arguments of `write` that select the mode and the format."""

    mode: SaveMode
    format: str
    partition_by: Sequence[str]
    partition_overwrite: PartitionOverwrite
    options: Mapping[str, str] | None
    schema: SchemaRule | None


def write(
    target: Target,
    df: "DataFrame",
    path: PathText,
    *,
    mode: SaveMode = "append",
    format: str = "parquet",
    partition_by: Sequence[str] = (),
    partition_overwrite: PartitionOverwrite = "dynamic",
    options: Mapping[str, str] | None = None,
    schema: SchemaRule | None = None,
    owner: str = "",
) -> list[Entry]:
    """Write a frame as files below `path` and stage them on `target`; the caller commits.

    Args:
        target: A branch, run or step.
        df: The frame to write.
        path: The table's folder.
        mode: ``append`` adds files. ``overwrite`` replaces the existing files; to overwrite rows with
            the same rows is not a change. ``error`` (or ``errorifexists``) refuses a folder with
            files, ``ignore`` does not change it.
        format: Spark's name of the file format.
        partition_by: Columns that become ``key=value`` folders.
        partition_overwrite: What ``overwrite`` replaces with `partition_by`: ``dynamic`` replaces the
            partitions that `df` has rows for, ``static`` the whole folder. Spark's own setting is not
            read.
        options: Spark's options of the format.
        schema: Compare with the table at `path`: ``same`` accepts only the same columns and types,
            ``evolve`` also new and missing columns. None accepts what Spark reads as one
            table: structs with other fields, and numbers that can be widened.
        owner: Identifies the rows: rows that the same owner appended below `path` before are replaced,
            those of other owners stay. The names of the files have a mark of the owner.

    Returns:
        The entries of the written files, in byte order of their paths; none if they were ignored.

    Raises:
        AlreadyExistsError: The mode is ``error``, and `path` has files.
        SchemaChangedError: The table has other columns or types than `schema` accepts, or types that
            Spark does not read as one table.
        InvalidInputError: `df` is not a frame of Spark, or Spark cannot write to the repository's
            storage, or the format writes no files, or an owner is given and the mode is not ``append``, or remaining files of the table
            are partitioned by other columns.
    """
    path, partition_by = path_text(path, "path"), texts(partition_by, "partition_by")
    check_terms(
        path,
        mode=mode,
        format=format,
        partition_by=partition_by,
        partition_overwrite=partition_overwrite,
        options=options,
        schema=schema,
    )
    owner = text(owner, "owner", empty=True)
    if owner and mode != "append":
        raise InvalidInputError(f"mode {mode!r}: an owner is only for mode 'append'")
    kind = type(df)
    if not kind.__module__.startswith("pyspark.sql."):
        raise InvalidInputError(
            f"{path}: {kind.__module__}.{kind.__qualname__} is not a frame of Spark: give "
            "`spark.createDataFrame(df)`, or `put` a file that its own library wrote"
        )
    mark = f"{sha256(owner.encode()).hexdigest()[:_MARK]}-" if owner else ""
    folder = f"{path.rstrip('/')}/"
    partition_by = _partitions(df, partition_by)
    whole = mode == "overwrite" and (not partition_by or partition_overwrite == "static")
    view = target._unrecorded
    if _is_ignored(view, folder, mode):
        return []
    kept = kept_by(df.schema, partition_by, format)
    if schema is not None:
        _compare(view, df, folder, format, schema)
    if not whole:
        stay = _others(view, folder, {*_owned(view, folder, mark)})
        check_together(folder, stay, partition_by, [kept] if mode == "append" else ())
    lasting = mode == "overwrite" or owner
    pairs = (
        {} if mode == "append" else {OVERWRITES: WHOLE if whole or mode in _CAREFUL else "folder"}
    )
    entries = [
        replace(
            entry,
            path=folder + (_lasting(entry.path, mark) if lasting else entry.path),
            metadata={**entry.metadata, **pairs},
        )
        for entry in save(target, df, format=format, partition_by=partition_by, options=options)
    ]
    entries.sort(key=lambda entry: entry.path.encode())
    if whole:
        gone = [entry.path for entry in view.entries(folder)]
    elif mode == "overwrite":
        gone = paths_in_partitions(view, folder, entries, df)
    else:
        gone = _owned(view, folder, mark)
    written = {entry.path for entry in entries}
    # others may have written during the job
    check_together(folder, _others(view, folder, {*gone, *written}), partition_by, [kept])
    target._link_written(entries)
    target.delete_many(path for path in gone if path not in written)
    return entries


def check_terms(
    path: PathText,
    *,
    mode: SaveMode = "append",
    format: str = "parquet",
    partition_by: Sequence[str] = (),
    partition_overwrite: PartitionOverwrite = "dynamic",
    options: Mapping[str, str] | None = None,
    schema: SchemaRule | None = None,
) -> None:
    """Refuse arguments that `write` does not support for any frame."""
    path = path_text(path, "path")
    check_path(path.rstrip("/"))
    check_format(path, text(format, "format"))
    texts(partition_by, "partition_by")
    choice(mode, "mode", SAVE_MODES)
    choice(partition_overwrite, "partition_overwrite", ("dynamic", "static"))
    optional(instance, options, "options", kind=Mapping, expected="a mapping")
    optional(choice, schema, "schema", choices=("same", "evolve"))


def save(
    target: Target,
    df: "DataFrame",
    *,
    format: str,
    partition_by: Sequence[str],
    options: Mapping[str, str] | None = None,
    schema: "StructType | None" = None,
) -> list[Entry]:
    """Let Spark write a frame below a new address, and return the entries, which are not staged.

    Their paths are relative to the address: ``dt=2026-01-03/part-….parquet``.
    """
    from pyspark.sql.functions import expr
    from pyspark.sql.types import TimestampType

    store = target.repository.objects
    address = target.new_address()
    kept = kept_by(schema or df.schema, partition_by, format)
    moments = {
        field.name: expr(_MOMENT.format("`{}`".format(field.name.replace("`", "``"))))
        for field in df.schema
        if field.name in partition_by and isinstance(field.dataType, TimestampType)
    }
    df = df.withColumns(moments) if moments else df
    if isinstance(store, KeepObjects):
        write_by_tasks(store, df, address, format, partition_by, options or {})
    else:
        writer = df.write.format(format).mode("append").options(**(options or {}))
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.save(spark_uri(store.uri(address)))
    files = _written(store, f"{address}/")
    if not files and not df.isEmpty():
        raise InvalidInputError(
            f"format {format!r} has written no files for the rows of the frame, and nothing is staged: "
            "choose a format of files, such as 'parquet', or write with Spark's own writer"
        )
    infos = list(files.values())
    checksums = settle(store, infos)
    metadata = described(store, format, infos, kept)
    entries = [
        Entry(
            path=name,
            address=info.key,
            size=info.size,
            checksum=checksum or info.checksum,
            mtime=info.mtime,
            metadata=pairs,
            computed=bool(checksum),
        )
        for (name, info), checksum, pairs in zip(files.items(), checksums, metadata, strict=True)
    ]
    return [replace(entry, seal=seal_of(entry)) for entry in entries]


def _is_ignored(view: View, folder: str, mode: SaveMode) -> bool:
    """Return whether the mode leaves a folder as it is; refuse one that it does not write into."""
    if next(view.entries(f"{folder}_delta_log/"), None) is not None:
        refuse_delta(folder)
    existing = next(view.entries(folder), None) if mode in _CAREFUL else None
    if existing is not None and mode != "ignore":
        raise AlreadyExistsError(
            f"{existing.path!r} exists already: write with mode 'append' or 'overwrite'"
        )
    return existing is not None


def _others(view: View, folder: str, gone: Container[str]) -> list[Entry]:
    return [entry for entry in view.entries(folder) if entry.path not in gone]


def _owned(view: View, folder: str, mark: str) -> list[str]:
    """Return the files of earlier writes by the owner of a mark; none without one."""
    paths = (entry.path for entry in view.entries(folder)) if mark else ()
    return [path for path in paths if path.rpartition("/")[2].startswith(mark)]


def _partitions(df: "DataFrame", names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of partition columns as the frame spells them."""
    columns = df.columns if names else []
    spelled = {name.lower(): name for name in columns}
    found = tuple(name if name in columns else spelled.get(name.lower(), name) for name in names)
    for name in found:
        if name.startswith("."):
            raise InvalidInputError(
                f"partition_by: {name!r}: Spark skips folders whose names start with a dot: rename "
                "the column"
            )
    return found


def check_together(
    folder: str, stay: Sequence[Entry], columns: Sequence[str], new: Sequence[Kept]
) -> None:
    """Refuse columns that do not go together with those of the files that stay in a table."""
    named = ((entry.path.removeprefix(folder), entry) for entry in stay)
    files = [(name, entry) for name, entry in named if is_in_table(name) and not is_hidden(name)]
    if not files:
        return
    first = files[0][0]
    if partition_columns([first]) != tuple(columns):
        raise InvalidInputError(
            f"partition_by={[*columns]!r}: {folder!r} is partitioned by "
            f"{[*partition_columns([first])]!r}, as in {first!r}, and Spark does not read both as one "
            "table: write with the same columns, overwrite the whole table by mode 'overwrite' and "
            "partition_overwrite='static', or write to another folder"
        )
    if new:
        check_merge(folder, (entry for _, entry in files), new)


def _compare(view: View, df: "DataFrame", folder: str, source: str, rule: SchemaRule) -> None:
    """Compare the schema of a frame with that of the table; a table without files accepts any."""
    files = table_entries(view, folder, nested=True)
    if files:
        before = stored_schema(files)
        if before is None:
            before = read(view, folder, format=source, spark=df.sparkSession).schema
        check_schema(folder, before, df.schema, rule)


def _written(store: ObjectStore, prefix: str) -> dict[str, ObjectInfo]:
    """Return the data files below `prefix` by name, and remove Spark's other files there."""
    files = {}
    for info in list(store.list(prefix)):
        name = info.key.removeprefix(prefix)
        if is_hidden(name):
            store.delete(info.key)
        else:
            files[name] = info
    return files


def _lasting(name: str, mark: str) -> str:
    """Return a file's name without the id of the job, so that the next job's file replaces it."""
    folder, slash, file = name.rpartition("/")  # a partition's value may also look like an id
    return folder + slash + mark + _JOB.sub("", file, count=1)


def paths_in_partitions(
    view: View, folder: str, entries: Sequence[Entry], df: "DataFrame"
) -> list[str]:
    """Return the paths of a table's files in the partitions of entries, including their own paths.

    Values are compared, not folders, because other programs escape and spell values differently.
    """
    files = {entry.path: entry for entry in (*view.entries(folder), *entries)}
    named = [(path.removeprefix(folder), entry) for path, entry in files.items()]
    written = [entry.path.removeprefix(folder) for entry in entries]
    zone = partial(time_zone, df.sparkSession)
    return [folder + name for name in in_partitions_of(written, named, df.schema, zone)]
