"""Tables of Iceberg in merges: a table that both sides changed is merged as a whole.

A merge by paths meets such a table at its record, which both sides changed. The result keeps the files of the
destination's table, and gets those of the snapshots that were put onto its head. ``docs/concepts/iceberg-merging.md``
has the rules.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graveler.committed.apply import StagedChange, apply
from graveler.committed.bases import CONFLICT
from graveler.committed.claims import Claim
from graveler.committed.diff import RawChange, diff
from graveler.committed.lookup import find_many
from graveler.committed.merge import Merged, RawConflict, staged
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import MergeConflictError, ObjectNotFoundError
from graveler.model import Commit
from graveler.reads.files import read_entry
from graveler.reads.stores import Stores
from graveler.repository.strategies import Settlement, conflict_of
from graveler.repository.writes.borrowed import rows_of
from graveler.repository.writes.links import linked
from graveler.repository.writes.staged import stored
from graveler.tables.layout import (
    POINTER,
    POINTER_TYPE,
    POINTERS,
    Pointer,
    check_library,
    identifier_of,
    is_record,
    path_of,
    shown,
)
from graveler.tables.merging.conflicts import MergedTable, TableConflict
from graveler.values import decode_entry, staged_value

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from graveler.tables.merging.tables import TableSide

_RECORD = b"/" + POINTER.encode()
_METADATA = b"metadata/"
_BASES = "the branches have several merge bases, in which the table differs"
_Lines = tuple[Commit | None, Commit | None]
Values = dict[bytes, bytes | None]
"""Value records by path; None removes a path."""


@dataclass(frozen=True, slots=True)
class TableMerges:
    """The tables that both sides of a merge have changed.

    Attributes:
        given: The strategy of the merge. For a table it counts if the table cannot be merged.
        lines: The heads of source and destination, if they are known; conflicts name their runs.
    """

    stores: Stores
    given: Settlement
    lines: _Lines
    _found: dict[bytes, tuple[Any, bytes | None, bytes | None]] = field(default_factory=dict)

    def resolve(self, key: bytes, base: Any, source: bytes | None, dest: bytes | None) -> Any:
        """Note a table, or leave another conflict to the strategy."""
        if is_record(key, base, source, dest):
            self._found[key] = base, source, dest
            return source
        return (
            CONFLICT if self.given.resolve is None else self.given.resolve(key, base, source, dest)
        )

    def merged(self, merged: Merged, source: str, dest: str, what: str) -> Merged:
        """Return the merged tree, in which the tables are merged, too."""
        stores, tree = self.stores, merged.metarange
        refused: dict[bytes, TableConflict] = {}
        changes: dict[bytes, StagedChange] = {}
        for key in sorted(self._found):
            place = key[: -len(POINTER)]
            result, work, there = self._one(key, source, dest)
            if isinstance(result, TableConflict):
                refused[key] = result
                continue
            whole = source if result.side == "source" else dest
            rows = [*diff(stores.ranges, tree, whole, prefix=place)]
            rows += [
                RawChange(path, None, value)
                for path, value in work.write(result, there, dest, source).items()
            ]
            changes.update((row.key, staged(row)) for row in rows)
        if refused:
            words = "; ".join(map(str, refused.values()))
            ids = [line.id if line else "" for line in self.lines]
            conflicts = (conflict_of(key, *self._found[key], (ids[0], ids[1])) for key in refused)
            raise MergeConflictError(f"{what}: {words}", tuple(conflicts), len(refused))
        if changes:
            ordered = [changes[key] for key in sorted(changes)]
            tree = apply(stores.ranges, tree, ordered, stores.splitting).metarange
        return replace(merged, metarange=tree, tables=tuple(places_of(sorted(self._found))))

    def conflicts(self, source: str, dest: str) -> Iterator[RawConflict]:
        """Yield the tables that cannot be merged; nothing is written."""
        for key in sorted(self._found):
            if isinstance(self._one(key, source, dest)[0], TableConflict):
                yield RawConflict(key, *self._found[key])

    def _one(
        self, key: bytes, source: str, dest: str
    ) -> "tuple[MergedTable | TableConflict, _Table, TableSide]":
        """Return the merge of a table, what writes its files, and the destination."""
        check_library()
        from graveler.tables.merging.tables import merge_table

        stores, work = self.stores, _Table(self.stores, key)
        base, *sides = self._found[key]
        names = (
            line.metadata.get("graveler.run") or line.id[:12] if line else "" for line in self.lines
        )
        ours, theirs = (
            work.side(value, name or default)
            for value, name, default in zip(sides, names, ("source", "destination"), strict=True)
        )
        if base is CONFLICT:
            result: MergedTable | TableConflict = TableConflict(
                work.name, "merge", (), ours.run, theirs.run, _BASES
            )
        else:
            start = work.side(base, "base").metadata
            result = merge_table(
                work.name,
                start,
                ours,
                theirs,
                work.files,
                clock=stores.clock,
                ids=stores.ids,
                folder=work.folder(dest, theirs.metadata or ours.metadata),
            )
        word = (self.given.whole(key) if self.given.whole else None) or self.given.word
        if isinstance(result, TableConflict) and word:
            side = ours if word == "source-wins" else theirs
            result = MergedTable(side.metadata, side=word.partition("-")[0])
        return result, work, theirs


def places_of(paths: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the folders of tables whose records are among paths."""
    return (path[: -len(POINTER)] for path in paths if path.endswith(_RECORD))


def undone_tables(
    stores: Stores,
    tree: str,
    writer: str,
    own: Mapping[bytes, Claim],
    returned: Collection[bytes],
    done: str,
) -> Iterator[tuple[bytes, Values]]:
    """Yield the tables that a step and then others have changed, without the snapshots of the step.

    Args:
        writer: The step's branch.
        own: What the step claims, by path.
        returned: Those that become again what they were before the step.
        done: The tree with which the step joined, or an empty one if it is no longer known.

    Yields:
        The folder of a table, and its changed files.

    Raises:
        MergeConflictError: What others did does not go without the step's rows.
    """
    keys = [key for key in own if key.endswith(_RECORD) and key not in returned]
    rows = (find_many(stores.ranges, at, keys) if keys else () for at in (tree, done))
    for key, row, left in zip(keys, *rows, strict=True):
        value = row and row[len(key) :]
        if value is None or not is_record(key, value):
            continue
        check_library()
        from graveler.tables.merging.tables import undo_writer

        work, place = _Table(stores, key), key[: -len(POINTER)]
        side = work.side(value, "later work")
        data = {
            path
            for path, claim in own.items()
            if path.startswith(place)
            and not path.startswith((key, place + _METADATA))
            and not claim.is_at(path, None)
        }
        before = own[key].before
        if before is not None and work.pointer(before).uuid != work.pointer(value).uuid:
            reason = "it replaced the table, and others wrote to the new one"
            replaced = TableConflict(work.name, "retry", (), side.run, side.run, reason)
            raise _retry_refused(replaced, key, value)
        result = undo_writer(
            work.name,
            side,
            writer,
            work.files,
            clock=stores.clock,
            ids=stores.ids,
            folder=work.folder(tree, side.metadata),
            unknown=partial(work.unknown, data),
            ends=work.ends(before, left and left[len(key) :]),
        )
        if isinstance(result, TableConflict):
            raise _retry_refused(result, key, value)
        yield place, work.write(result, side, tree)


def _retry_refused(refused: TableConflict, key: bytes, value: bytes) -> MergeConflictError:
    told = (
        f'{replace(refused, source="this step")}; or open the step with tables="keep" and let it replace '
        "its own rows"
    )
    return MergeConflictError(told, (conflict_of(key, None, None, value),), 1)


class _Table:
    """A table of a merge: the path of its record, and its files."""

    def __init__(self, stores: Stores, key: bytes) -> None:
        from graveler.tables.files import UnwrittenFiles

        self._stores = stores
        self._key = key
        self.files = UnwrittenFiles(stores)
        self.name = shown(identifier_of(key[: -len(_RECORD)].decode()))

    def side(self, value: bytes | None, run: str) -> "TableSide":
        """Return the table of a version of its record."""
        from graveler.tables.merging.tables import TableSide

        if value is None:
            return TableSide(None, "", run)
        return TableSide(*self.files.table(self.pointer(value)), run)

    def ends(
        self, before: bytes | None, after: bytes | None
    ) -> "tuple[TableMetadata, TableMetadata] | None":
        """Return the metadata of two versions of the record; None if one is not known, or has expired."""
        if before is None or after is None:
            return None
        try:
            old, left = (self.files.table(self.pointer(value))[0] for value in (before, after))
        except ObjectNotFoundError:
            return None
        return old, left

    def pointer(self, value: bytes) -> Pointer:
        """Return what a version of the record says."""
        return POINTERS.decode(read_entry(self._stores, decode_entry(self._key, value)))

    def folder(self, tree: str, metadata: "TableMetadata | None") -> str | None:
        """Return the location of what a merge into a tree writes."""
        if metadata is None:
            return None
        return self._stores.uri(self.files.key(tree, metadata.table_uuid))

    def unknown(self, data: Collection[bytes], locations: Iterable[str]) -> bool:
        """Return whether some paths of data are not those of files at locations."""
        place = self._key[: -len(POINTER)].decode()
        found = (self.files.address(location) for location in locations)
        paths = {path_of(place, address, self.files.start).encode() for address in found}
        return not paths.issuperset(data)

    def write(
        self, result: "MergedTable", there: "TableSide", tree: str, other: str = EMPTY_METARANGE
    ) -> Values:
        """Write the files of a merge. Return the value records that the tree gets.

        Args:
            other: A tree whose files it can have, too.
        """
        from graveler.tables.files import TableEntries

        if result.side or result.metadata is None:
            return {}
        stores, key = self._stores, self._key
        self.files.write()
        place = key[: -len(POINTER)].decode()
        table = TableEntries(stores, tree, place, self.files, self.files.start)
        entries, pointer = table.written(result.metadata, there.metadata)
        paths = [entry.path.encode() for entry in entries]
        known = find_many(stores.ranges, other, paths)
        values = {path: row[len(path) :] for path, row in zip(paths, known, strict=True) if row}
        new = [entry for path, entry in zip(paths, entries, strict=True) if path not in values]
        record = stored(stores, key.decode(), POINTERS.encode(pointer), POINTER_TYPE, {})
        rows = rows_of(*linked(stores, [*new, record]))
        old = there.metadata
        dropped = self.files.dropped(old, result.metadata) if old else ()
        gone: Values = {table.path(location).encode(): None for location in dropped}
        return gone | values | {row.key: staged_value(row.value) for row in rows}
