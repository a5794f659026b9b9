"""Table functions of SQL: ``graveler_entries('main', 'tables/')`` and others.

Spark calls `analyze` on the driver's host for every query. Constant refs are looked up there. The value of
a column or a variable is not known then. It may be any branch or tag, so tasks get the trees of all of
them. Tasks get trees and the object store, and nothing of the key-value store.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.functions import udtf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from graveler.committed.range_store import RangeStore
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.spark.columns import COLUMNS
from graveler.spark.lakes import check_opened, open_lake
from graveler.spark.listings import ListingReader
from graveler.spark.options import Request
from graveler.spark.preflight import check_sent
from graveler.spark.trees import TreeReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from graveler.lake import Repository


class Place(NamedTuple):
    """The repository that the functions of a session read.

    Attributes:
        lake: The lake's location, as for ``graveler.open``.
    """

    lake: str
    repository: str

    def request(self, kind: str, *, ref: str = "", prefix: str = "") -> Request:
        """Return the request of a function."""
        return Request(self.lake, self.repository, kind, ref=ref, prefix=prefix)


@dataclass
class Planned(AnalyzeResult):
    """The data that tasks get from the driver.

    Attributes:
        trees: Metarange ids by ref.
    """

    ranges: RangeStore | None = None
    trees: Mapping[str, str] = field(default_factory=dict)
    parts: Sequence[InputPartition] = ()


def plan_trees(place: Place, kind: str, *refs: AnalyzeArgument) -> Planned:
    """Return the trees that the refs name or may name."""
    with open_lake(place.lake) as lake:
        repository = lake.repository(place.repository)
        views = [repository.ref(_constant(ref)) for ref in refs if ref.isConstantExpression]
        trees = {view.name: view.commit.metarange for view in views}
        if not all(ref.isConstantExpression for ref in refs):
            heads = {branch.name: branch.commit_id for branch in repository.branches()}
            for name, commit in (repository.tags.list() | heads).items():
                trees.setdefault(name, repository.stores.refs.commits.get(commit).metarange)
        ranges = repository.stores.ranges
        check_sent(ranges)
        return Planned(from_arrow_schema(COLUMNS[kind]), ranges=ranges, trees=trees)


def plan_listing(place: Place, kind: str, ref: AnalyzeArgument | None = None) -> Planned:
    """Return the rows of a kind that the driver lists."""
    if ref is not None and not ref.isConstantExpression:
        raise InvalidInputError(
            f"graveler_{kind} takes a constant ref, because the driver lists the rows: give text, or a "
            "parameter of spark.sql, and no column or variable"
        )
    expression = "" if ref is None else _constant(ref)
    reader = ListingReader(open_lake, place.request(kind, ref=expression))
    return Planned(from_arrow_schema(COLUMNS[kind]), parts=reader.partitions())


def read_trees(planned: Planned, request: Request, *refs: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a kind that is read from trees."""
    if planned.ranges is None or None in refs:
        return
    for ref in refs:
        if ref not in planned.trees:
            raise RefNotFoundError(
                f"no branch or tag {ref!r} when the query was planned: a ref that comes from a column or a "
                "variable is one of these; give other refs as text, or as parameters of spark.sql"
            )
    trees = [planned.trees[ref] for ref in refs if ref]
    reader = TreeReader(planned.ranges, request, trees)
    for partition in reader.partitions():
        for batch in reader.read(partition):
            yield from _rows(batch)


def listed_rows(planned: Planned) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that the driver has listed."""
    for part in planned.parts:
        yield from _rows(part.value)


def _constant(ref: AnalyzeArgument) -> str:
    if not isinstance(ref.value, str):
        raise InvalidInputError(
            f"ref: {ref.value!r}: give text: a branch, a tag, a commit id, main~2"
        )
    return ref.value


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    for row in batch.to_pylist():
        yield tuple(_plain(column.type, row[column.name]) for column in batch.schema)


def _plain(kind: pa.DataType, value: Any) -> Any:
    """Return a value in the form that Spark accepts from a function."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        return {of.name: _plain(of.type, value[of.name]) for of in kind}
    return value


def register_sql(spark: "SparkSession", repository: "Repository") -> None:
    """Let the SQL of a session read a repository: its entries, differences, commits and refs.

    ::

        gs.register_sql(spark, repo)
        spark.sql("select kind, count(*) from graveler_diff('main', 'dev') group by kind")

    The functions are ``graveler_entries(ref, prefix)``, ``graveler_diff(left, right, prefix)``,
    ``graveler_commits(ref)`` and ``graveler_refs()``. Prefixes are optional. Refs are looked up when the
    query is planned. Arguments of entries and differences may be variables, and columns of a ``lateral``
    join. Such a ref is the name of a branch or a tag. One task runs a call, while many tasks read a frame
    of `Tables`.

    Args:
        spark: The session, classic or of Spark Connect.
        repository: The repository. A second call for another one replaces the functions.
    """
    place = Place(repository.stores.location, repository.name)
    check_opened(place.lake)
    for name, handler in _handlers(place).items():
        spark.udtf.register(name, udtf(handler))  # type: ignore[arg-type]  # no decorator


def _handlers(place: Place) -> Mapping[str, type]:
    # Spark reads the arguments of a function from the signatures of `analyze` and `eval`

    class Function:
        def __init__(self, planned: Planned) -> None:
            self.planned = planned

    class Entries(Function):
        @staticmethod
        def analyze(ref: AnalyzeArgument, prefix: AnalyzeArgument | None = None) -> Planned:
            del prefix
            return plan_trees(place, "entries", ref)

        def eval(self, ref: str | None, prefix: str | None = None) -> Iterator[tuple[Any, ...]]:
            request = place.request("entries", prefix=prefix or "")
            return read_trees(self.planned, request, ref)

    class Diff(Function):
        @staticmethod
        def analyze(
            left: AnalyzeArgument, right: AnalyzeArgument, prefix: AnalyzeArgument | None = None
        ) -> Planned:
            del prefix
            return plan_trees(place, "diff", left, right)

        def eval(
            self, left: str | None, right: str | None, prefix: str | None = None
        ) -> Iterator[tuple[Any, ...]]:
            request = place.request("diff", prefix=prefix or "")
            return read_trees(self.planned, request, left, right)

    class Commits(Function):
        @staticmethod
        def analyze(ref: AnalyzeArgument) -> Planned:
            return plan_listing(place, "commits", ref)

        def eval(self, ref: str) -> Iterator[tuple[Any, ...]]:
            del ref
            return listed_rows(self.planned)

    class Refs(Function):
        @staticmethod
        def analyze() -> Planned:
            return plan_listing(place, "refs")

        def eval(self) -> Iterator[tuple[Any, ...]]:
            return listed_rows(self.planned)

    return {
        "graveler_entries": Entries,
        "graveler_diff": Diff,
        "graveler_commits": Commits,
        "graveler_refs": Refs,
    }
