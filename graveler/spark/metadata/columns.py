"""The columns of each kind of the data source, and the rows of kinds that the driver lists.

Spark accepts only batches whose schema equals that of the source, including the nullable flags.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

import graveler
from graveler.base.names import path_key
from graveler.committed.cache.flat import Run
from graveler.committed.metarange import prefix_end, read
from graveler.reads.table import SCHEMA, record_batch
from graveler.spark.metadata.options import Request

if TYPE_CHECKING:
    from graveler.lake.repository import Repository


_TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "texts": pa.list_(pa.field("element", pa.string())),
    "number": pa.int64(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "pairs": SCHEMA.field("metadata").type,
    "entry": pa.struct([field for field in SCHEMA if field.name != "path"]),
}
"""Types of columns. Only entries may be null."""


def _columns(**types: str) -> list[pa.Field]:
    return [pa.field(name, _TYPES[kind], nullable=kind == "entry") for name, kind in types.items()]


_DIFF = _columns(path="text", kind="text", before="entry", after="entry")

COLUMNS: Mapping[str, pa.Schema] = {
    "entries": SCHEMA.append(pa.field("range_id", pa.string(), nullable=False)),
    "ranges": pa.schema(
        _columns(id="text", min_path="text", max_path="text", entries="number", size="number")
    ),
    "diff": pa.schema(_DIFF),
    "changes": pa.schema(
        [*_DIFF, *_columns(commit_id="text", committed="time", sequence="number")]
    ),
    "commits": pa.schema(
        _columns(id="text", parents="texts", generation="number", message="text")
        + _columns(committer="text", created="time", metadata="pairs", tree="text")
    ),
    "refs": pa.schema(_columns(name="text", kind="text", commit_id="text")),
    "runs": pa.schema(
        _columns(key="text", state="text", attempt="number", branch="text", into="text")
        + _columns(base="text", head="text", reason="text", metadata="pairs")
        + _columns(created="time", opened="time", updated="time", lease_until="time")
    ),
    "conflicts": pa.schema(
        _columns(path="text", base="entry", source="entry", dest="entry", bases_disagree="flag")
    ),
}
"""Columns by kind."""


def entry_batch(run: Run, range_id: str) -> pa.RecordBatch:
    """Return rows of a range as entries."""
    batch = record_batch(run)
    ids = pa.repeat(range_id, batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, ids], schema=COLUMNS["entries"])


def entry_structs(
    keys: Sequence[bytes], values: Sequence[bytes | None], others: Sequence[bytes | None]
) -> pa.StructArray:
    """Return entries as one column, with null for a missing entry."""
    filled = zip(values, others, strict=True)
    rows = [(key, one or other or b"") for key, (one, other) in zip(keys, filled, strict=True)]
    mask = pa.array([value is None for value in values], pa.bool_())
    columns = record_batch(Run.of(rows)).columns[1:]
    return pa.StructArray.from_arrays(columns, fields=list(_TYPES["entry"]), mask=mask)


_ROWS = 10_000
"""Number of rows of a task."""

Row = Mapping[str, Any]


class ListingReader(DataSourceReader):
    """Lists rows on the driver; tasks only return them."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """Return the rows."""
        request = self._request
        with graveler.open(request.lake) as lake:
            rows = _LISTINGS[request.kind](lake.repository(request.repository), request)
            parts = iter(lambda: list(islice(rows, _ROWS)), [])
            batch = partial(pa.RecordBatch.from_pylist, schema=COLUMNS[request.kind])
            return [InputPartition(batch(part)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        return iter(() if partition.value is None else (partition.value,))


def _fields(kind: str, record: object, **others: Any) -> Row:
    names = COLUMNS[kind].names
    return {name: getattr(record, name) for name in names if name not in others} | others


def _commits(repository: "Repository", request: Request) -> Iterator[Row]:
    for commit in repository.log(request.ref):
        pairs = list(commit.metadata.items())
        yield _fields("commits", commit, metadata=pairs, tree=commit.metarange)


def _ranges(repository: "Repository", request: Request) -> Iterator[Row]:
    start = path_key(request.prefix) if request.prefix else b""
    tree = read(repository.stores.ranges, repository.commit(request.ref).metarange)
    for info in tree.within(start, prefix_end(start)):
        ends = {"min_path": info.min_key.decode(), "max_path": info.max_key.decode()}
        yield {"id": info.id.hex(), **ends, "entries": info.count, "size": info.size}


def _refs(repository: "Repository", _request: Request) -> Iterator[Row]:
    for branch in repository.branches():
        yield {"name": branch.name, "kind": "branch", "commit_id": branch.commit_id}
    for name, commit in repository.tags.list().items():
        yield {"name": name, "kind": "tag", "commit_id": commit}


def _runs(repository: "Repository", _request: Request) -> Iterator[Row]:
    for run in repository.runs.list():
        yield _fields("runs", run, state=str(run.state), metadata=list(run.metadata.items()))


def _conflicts(repository: "Repository", request: Request) -> Iterator[Row]:
    preview = repository.preview_merge(request.ref, request.base)
    for conflict in preview.every_conflict():
        entries = {side: getattr(conflict, side) for side in ("base", "source", "dest")}
        sides = {
            side: entry and {**asdict(entry), "metadata": list(entry.metadata.items())}
            for side, entry in entries.items()
        }
        yield _fields("conflicts", conflict, **sides)


_LISTINGS: Mapping[str, Callable[["Repository", Request], Iterator[Row]]] = {
    "commits": _commits,
    "ranges": _ranges,
    "refs": _refs,
    "runs": _runs,
    "conflicts": _conflicts,
}
