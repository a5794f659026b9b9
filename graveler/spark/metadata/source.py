"""The data source ``format("graveler")``: metadata of a repository's files, commits and runs.

A process on the driver's host opens the lake, looks up the ref once and plans the frame; tasks get the
object store alone. No reader has a ``pushFilters``, because Spark 4.3 keeps the plan of a filter and
shows its rows to the next query of the same frame.
"""

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader

import graveler
from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.spark.metadata.options import STREAMS, Request

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from graveler.spark.streams.source import ChangeReader


class DefaultSource(DataSource):
    """The data source, of lakes that `graveler.open` opens."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._request = Request.of(options)
        self._pinned: Request | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "graveler"

    def schema(self) -> "StructType":
        """Return the columns of the kind, and look up the ref.

        Spark asks for the schema once and keeps the source, so the frame shows the present commit.
        """
        self._pinned = self._pin()
        return self._columns()

    def _columns(self) -> "StructType":
        from pyspark.sql.pandas.types import from_arrow_schema

        from graveler.spark.metadata.columns import COLUMNS

        return from_arrow_schema(COLUMNS[self._request.kind])

    def _pin(self) -> Request:
        """Return the request with commit ids in place of refs."""
        request = self._request
        with graveler.open(request.lake) as lake:
            repository = lake.repository(request.repository)
            if request.kind in {"refs", "runs", *STREAMS}:
                return request
            default = repository.stores.default_branch
            ref = repository.ref(request.expression(default)).commit_id
            base = request.base
            if request.kind == "diff":
                base = repository.ref(base).commit_id
            return replace(request, ref=ref, at="", base=base)

    def reader(self, schema: "StructType") -> DataSourceReader:
        """Return the reader of the kind."""
        kind = self._request.kind
        if kind in STREAMS:
            raise InvalidInputError(
                f"kind {kind!r} is a stream, read by spark.readStream; spark.read shows the differences "
                "between two versions as kind 'diff'"
            )
        self._check_columns(schema)
        return self._reader(self._pinned or self._pin())

    def _check_columns(self, schema: "StructType") -> None:
        own = self._columns()
        if schema != own:
            raise InvalidInputError(
                f"kind {self._request.kind!r} has columns of its own: leave out .schema(...), and select "
                f"of {', '.join(own.fieldNames())}"
            )

    def _reader(self, request: Request) -> DataSourceReader:
        # both need pyarrow
        if request.kind not in {"entries", "diff"}:
            from graveler.spark.metadata.columns import ListingReader

            return ListingReader(request)
        from graveler.spark.metadata.trees import TreeReader

        with graveler.open(request.lake) as lake:
            repository = lake.repository(request.repository)
            commits = [repository.commit(ref) for ref in (request.base, request.ref) if ref]
            ranges = deepcopy(repository.stores.ranges)  # stays open when the lake is closed
            return TreeReader(ranges, request, [commit.metarange for commit in commits])

    def writer(self, schema: "StructType", overwrite: bool) -> NoReturn:
        """Refuse: metadata is not written."""
        raise InvalidInputError(
            'format("graveler") shows metadata and writes nothing: write tables with '
            "graveler.spark.Tables(repository).transaction(branch, message=...), by its write(frame, path)"
        )

    streamWriter = writer

    def streamReader(self, schema: "StructType") -> "ChangeReader":
        """Return the reader of a stream."""
        request = self._request
        if request.kind not in STREAMS:
            raise InvalidInputError(
                f"kind {request.kind!r} is read by spark.read and shows one version; as a stream choose "
                f"of {', '.join(STREAMS)}"
            )
        self._check_columns(schema)
        try:
            from graveler.spark.streams.source import ChangeReader
        except ImportError as error:
            raise MissingDependencyError(
                f"streams of changes need PySpark 4.2 or newer, and pyarrow: {error}"
            ) from error
        with graveler.open(request.lake) as lake:
            ranges = deepcopy(lake.repository(request.repository).stores.ranges)
        return ChangeReader(request, ranges)
