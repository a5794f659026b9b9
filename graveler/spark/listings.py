"""Kinds that the driver lists: commits, refs, runs and conflicts. Tasks get the rows."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from graveler.spark.columns import COLUMNS, entry_row, listed_batch
from graveler.spark.options import Request

if TYPE_CHECKING:
    from graveler.lake import Lake, Repository

_ROWS = 10_000
"""Number of rows of a task."""

Row = Mapping[str, Any]


class ListingReader(DataSourceReader):
    """Lists rows on the driver; tasks only return them."""

    def __init__(self, open_lake: "Callable[[str], Lake]", request: Request) -> None:
        self._open_lake = open_lake
        self._request = request

    def partitions(self) -> list[InputPartition]:
        """Return the rows."""
        request = self._request
        with self._open_lake(request.lake) as lake:
            rows = _LISTINGS[request.kind](lake.repository(request.repository), request)
            parts = iter(lambda: list(islice(rows, _ROWS)), [])
            return [InputPartition(listed_batch(request.kind, part)) for part in parts]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of a task."""
        return iter(() if partition.value is None else (partition.value,))


def _fields(kind: str, record: object, **others: Any) -> Row:
    """Return the fields of a record that are columns of a kind."""
    names = COLUMNS[kind].names
    return {name: getattr(record, name) for name in names if name not in others} | others


def _commits(repository: "Repository", request: Request) -> Iterator[Row]:
    for commit in repository.log(request.ref):
        pairs = list(commit.metadata.items())
        yield _fields("commits", commit, metadata=pairs, tree=commit.metarange)


def _refs(repository: "Repository", _request: Request) -> Iterator[Row]:
    for branch in repository.branches():
        yield {"name": branch.name, "kind": "branch", "commit_id": branch.commit_id}
    for name, commit in repository.tags.list().items():
        yield {"name": name, "kind": "tag", "commit_id": commit}


def _runs(repository: "Repository", _request: Request) -> Iterator[Row]:
    for run in repository.runs.list():
        yield _fields("runs", run, state=str(run.state), metadata=list(run.metadata.items()))


def _conflicts(repository: "Repository", request: Request) -> Iterator[Row]:
    preview = repository.merge(request.ref, request.base, dry_run=True)
    for conflict in preview.every_conflict():
        sides = {side: entry_row(getattr(conflict, side)) for side in ("base", "source", "dest")}
        yield _fields("conflicts", conflict, **sides)


_LISTINGS: Mapping[str, Callable[["Repository", Request], Iterator[Row]]] = {
    "commits": _commits,
    "refs": _refs,
    "runs": _runs,
    "conflicts": _conflicts,
}
