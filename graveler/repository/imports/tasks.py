"""The tasks of a bulk import: writing the ranges of one slice of a tree to the object store.

A task gets rows, and the object store with its credentials, but no key-value store. It puts tables
if they are absent, under ids of their content. So it can run twice, concurrently or after it was
killed. It returns a row for each range of the slice, and one row with counts.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graveler.base.telemetry import COMMIT
from graveler.committed.apply import Applied, StagedChange, Tally
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.slices import Cut, Part, build, replacing
from graveler.errors import (
    CorruptionError,
    GravelerError,
    InvalidInputError,
    NewerFormatError,
    NoChangesError,
    ObjectNotFoundError,
    OlderFormatError,
    PermissionDeniedError,
    SourceChangedError,
    StateError,
)
from graveler.model import BranchRecord, Commit, RangeInfo
from graveler.objects.store import ObjectStore
from graveler.publishing.landing import CommitSpec, Tip, claims_after, land, look, make_commit
from graveler.publishing.tracing import traced
from graveler.reads.listing import within
from graveler.reads.stores import Stores
from graveler.reads.versions import newest_first
from graveler.repository.imports.files import named_rows
from graveler.repository.imports.found import Entries
from graveler.repository.imports.inventory import InventoryRows
from graveler.repository.writes.links import LinkRules
from graveler.values import decode_range_info, encode_entry, encode_range_info, record_id

if TYPE_CHECKING:
    import pyarrow as pa

KEY = "graveler_key"
SLICE = "graveler_slice"
"""Columns of rows besides those of an inventory: the key of the path, the number of the slice."""

RESULT = "number int, max_key binary, value binary, found boolean"
"""Rows that a task returns: the ranges as in their metarange, and a row of counts without a key."""

_CACHE_BYTES = 64 << 20
_BATCH = 4_096
FAULTS: tuple[type[GravelerError], ...] = (
    *(InvalidInputError, PermissionDeniedError, ObjectNotFoundError, SourceChangedError),
    *(CorruptionError, NewerFormatError, OlderFormatError),
)
"""Errors that a repetition cannot fix. They are sent to the driver as rows and keep their types."""


def encode_fault(error: GravelerError) -> str:
    """Return an error of `FAULTS` as text for a row."""
    kind = next(at for at, kind in enumerate(FAULTS) if isinstance(error, kind))
    return json.dumps({"fault": kind, "message": str(error)})


def decode_fault(row: str | bytes) -> GravelerError:
    """Return the error of a row."""
    fields = json.loads(row)
    kind = FAULTS[int(fields["fault"])]
    return kind(fields["message"])


class Sliced(NamedTuple):
    """The result of a task for a slice."""

    part: Part
    found: Collection[bytes]
    files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class SliceTask:
    """Builds a slice from its rows, in a task of another process.

    Attributes:
        replaces: The start of the keys that the rows replace completely. None: other keys stay.
    """

    objects: ObjectStore
    cut: Cut
    rules: LinkRules
    replaces: bytes | None

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Return the rows of the result for the rows of one slice, or nothing for no rows."""
        return run_slice(batches, self.run)

    def run(self, number: int, table: "pa.Table") -> Sliced:
        """Build a slice from its rows, given in any order."""
        store, found = task_store(self.objects)
        rows = _Rows(self.rules)
        changes = rows.changes(table)
        if self.replaces is not None:
            changes = replacing(store, self.cut, number, self.replaces, changes)
        part = build(store, self.cut, number, changes)
        return Sliced(part, found, rows.entries.files, rows.entries.size)


class _Rows:
    """Converts rows to changes."""

    def __init__(self, rules: LinkRules) -> None:
        self._reader = InventoryRows("", verify=False)
        self.entries = Entries(rules, "")

    def changes(self, table: "pa.Table") -> Iterator[StagedChange]:
        """Yield the changes of rows, in key order."""
        import pyarrow.compute as pc

        pathless = table.filter(pc.is_null(table.column(KEY)))
        if len(pathless):
            address = pathless.column("address")[0].as_py()
            raise InvalidInputError(f"the row of address {address!r} has no path")
        last, before = b"", ""
        for batch in in_key_order(table):
            keys = batch.column(KEY).to_pylist()
            for key, row in zip(keys, named_rows(batch.drop_columns([KEY])), strict=True):
                address = row["address"]
                if key == last:
                    raise InvalidInputError(
                        f"path {_text(key)!r} is in two rows, of addresses {before!r} and "
                        f"{address!r}: a path has one file"
                    )
                yield self._change(key, dict(row))
                last, before = key, address

    def _change(self, key: bytes, row: dict[str, Any]) -> StagedChange:
        row["path"] = path = _text(key)
        where = f"row of path {path!r}"
        found = self._reader.found(row, where)
        if found is None:
            raise InvalidInputError(f"{where}: address {row['address']!r} names a folder")
        value = encode_entry(self.entries.of(found))[1]
        return key, record_id(key, value), value


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def run_slice(
    batches: "Iterator[pa.RecordBatch]", run: "Callable[[int, pa.Table], Sliced]"
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of the result for the rows of one slice, or nothing for no rows.

    An error that a repetition cannot fix is a row, too.
    """
    import pyarrow as pa

    filled = [batch for batch in batches if batch.num_rows]
    if filled:
        table = pa.Table.from_batches(filled)
        number = table.column(SLICE)[0].as_py()
        try:
            rows = _encoded(number, run(number, table.drop_columns([SLICE])))
        except FAULTS as error:
            rows = [(number, None, encode_fault(error).encode(), False)]
        yield batch_of(rows, RESULT)


def in_key_order(table: "pa.Table") -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a table in key order, in batches."""
    import pyarrow.compute as pc

    order = pc.sort_indices(table.column(KEY))
    for start in range(0, len(order), _BATCH):
        yield from table.take(order.slice(start, _BATCH)).to_batches()


def task_store(objects: ObjectStore) -> tuple[RangeStore, set[bytes]]:
    """Return a range store for a task, and a set that gets the ids of tables that exist already.

    An existing table may be condemned. A task cannot check this, so the driver does.
    """
    found: set[bytes] = set()

    def note(identifier: bytes, put: Callable[[], bool]) -> bool:
        del put
        found.add(identifier)
        return False

    return RangeStore(objects, RangeCache(None, _CACHE_BYTES), rescue=note), found


def batch_of(rows: Sequence[tuple[Any, ...]], schema: str) -> "pa.RecordBatch":
    """Return rows as a batch with the columns of a schema of Spark."""
    import pyarrow as pa

    types = {
        "int": pa.int32(),
        "long": pa.int64(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<string>": pa.list_(pa.string()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    fields = [field.split() for field in schema.split(", ")]
    arrays = [
        pa.array([row[place] for row in rows], types[kind])
        for place, (_, kind) in enumerate(fields)
    ]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])


def _encoded(number: int, sliced: Sliced) -> list[tuple[int, bytes | None, bytes, bool]]:
    """Return the rows of a slice."""
    part, found, tally = sliced.part, sliced.found, sliced.part.tally
    rows: list[tuple[int, bytes | None, bytes, bool]] = [
        (number, info.max_key, encode_range_info(info), info.id in found) for info in part.infos
    ]
    counts = (tally.added, tally.changed, tally.removed, sliced.files, sliced.size)
    return [*rows, (number, None, json.dumps(counts).encode(), False)]


def decoded(rows: list[tuple[int, bytes | None, bytes, bool]]) -> Sliced:
    """Return the slice of these rows, or raise their fault."""
    infos: list[RangeInfo] = []
    found: list[bytes] = []
    counts: Any = None
    for _, key, value, there in rows:
        if key is None:
            counts = json.loads(value)
            continue
        info = decode_range_info(key, value)
        infos.append(info)
        if there:
            found.append(info.id)
    if isinstance(counts, dict):
        raise decode_fault(rows[0][2])
    added, changed, removed, files, size = counts
    infos.sort(key=lambda info: info.max_key)
    return Sliced(Part(infos, Tally(added, changed, removed)), found, files, size)


BuildTree = Callable[[str], Applied]
"""Applies the import to the tree of a metarange id. It runs again if the branch has moved."""


def land_tree(
    stores: Stores, name: str, spec: CommitSpec, build: BuildTree, *, prefix: bytes, fence: str = ""
) -> Commit:
    """Commit the tree that an import makes from the head."""

    def make(tip: Tip) -> BranchRecord:
        if tip.rules is not None:
            tip.rules.check(name, "write")
        _check_unstaged(stores, tip.record, prefix)
        applied = build(tip.head.metarange)
        if not applied.changed:
            raise NoChangesError(f"branch {name!r}: the head has all of the import already")
        tree = applied.metarange
        claims = claims_after(stores, (name, fence, spec), tip.head, tree)
        made = make_commit(stores, tree=tree, parents=(tip.head,), spec=spec, claims=claims)
        return tip.at(made)

    with traced(stores, COMMIT, {"vcs.ref.head.name": name}) as work:
        first = look(stores, name, fence=fence, rules=not fence)
        guard = "" if fence else "commit"
        landed = land(stores, name, "commit", make, fence=fence, guard=guard, first=first)
        work.end(landed.head, landed=True)
        return landed.head


def _check_unstaged(stores: Stores, record: BranchRecord, prefix: bytes) -> None:
    """Refuse staged writes below the import's prefix, because they would hide the import."""
    staged = stores.staging.scan(newest_first(record), prefix)
    for key, _ in within(prefix, staged):
        raise StateError(
            f"branch {record.name!r} has a staged write of {key.decode()!r}, below the folder of the "
            "import, which would hide it: commit it or discard it first"
        )
