"""Tables where a branch gets a new head: new files must go together with those that are there.

A table is a folder that Spark's writer has written into. A commit names its tables in its metadata, each
with hashes of what its entries keep, so that a merge reads only the entries of tables with other schemas on
each side. What was mixed before stays: only what a landing makes worse is refused.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import chain, islice
from typing import Any

from graveler.base.background import Threads, growing_batches
from graveler.base.parallel import thread_count
from graveler.committed.apply import StagedChange
from graveler.committed.diff import diff
from graveler.committed.merge import staged
from graveler.committed.metarange import prefix_end, scan
from graveler.errors import GravelerError, MergeConflictError, SchemaChangedError
from graveler.model import METADATA_BYTES, Commit, Conflict, Entry
from graveler.publishing.landing import CommitSpec
from graveler.reads import schemas
from graveler.reads.partitions import folder_values, is_hidden, is_in_table, value_folders
from graveler.reads.stores import Stores
from graveler.refs.history import outside
from graveler.values import decode_entry

TABLES = "graveler.tables"
"""Metadata of a commit: the tables that it writes, as JSON; for each, hashes of what its entries keep."""
_FOREIGN = ""
"""In place of a hash: Parquet files of other programs."""
_OVERWRITTEN = "="
"""Beside the hashes: the commit overwrites the folder."""
_OVERWRITES = schemas.OVERWRITES.encode()
_PARQUET = b".parquet"
_MOST = METADATA_BYTES // 2
_NEAR = 100
_FOLDERS = 64
_FOOTERS = 16
_SHOWN = 5
_KEPT = 1_000

Tables = Mapping[str, Collection[str]]
"""Tables by folder, each with the hashes of what its entries keep."""
_Version = tuple[Sequence[schemas.Field], Sequence[schemas.Field]]
"""The columns and the partition columns of a file; the type of a partition column may be "" for unknown."""

_Values = tuple[tuple[str, object], ...]
"""The columns of ``key=value`` folders with their values, outermost first."""


class Watch:
    """The tables that a commit writes."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[schemas.Kept, bytes]] = {}
        self._foreign: dict[str, bytes] = {}
        self._noted: bytes | None = None  # the last folder of such a file
        self._overwritten: set[str] = set()

    def of(self, changes: Iterable[StagedChange]) -> Iterator[StagedChange]:
        """Yield changes, and note the tables of their files."""
        for batch in growing_batches(changes):
            if len(self._foreign) < _FOLDERS:
                for key, _, value in batch:
                    if value is not None and schemas.MARK not in value:
                        self._note_foreign(key)
            for key, value in [(key, v) for key, _, v in batch if v and schemas.MARK in v]:
                self._note(key, value)
            yield from batch

    def _note_foreign(self, key: bytes) -> None:
        folder = key.rpartition(b"/")[0]
        if key.endswith(_PARQUET) and folder != self._noted:  # a table has many files
            self._noted = folder
            for above in schemas.folders_of(key.decode()):
                self._foreign.setdefault(above, key)

    def _note(self, key: bytes, value: bytes) -> None:
        table = schemas.table_of(key, value)
        if table is not None:
            self._kept.setdefault(table[0], {}).setdefault(table[1], key)
        else:
            self._note_foreign(key)
        if _OVERWRITES in value:
            what = decode_entry(key, value).metadata.get(schemas.OVERWRITES)
            own = f"{key.decode().rpartition('/')[0]}/"
            self._overwritten.add(table[0] if what == schemas.WHOLE and table else own)

    def check(self, stores: Stores, head: Commit, tree: str) -> dict[str, set[str]]:
        """Return the tables that a commit writes, after a comparison with its head.

        The entries of a table are read only if none of the first ones keeps the same.
        """
        found: dict[str, set[str]] = {}
        for folder, kept in self._kept.items():
            found[folder] = {sha256("\n".join(each).encode()).hexdigest()[:8] for each in kept}
            if not kept.keys() <= {*_near(stores, head.metarange, folder, min(kept.values()))}:
                _compare(stores, folder, head, tree)
        for folder, key in self._foreign.items():
            if folder in found or next(_near(stores, head.metarange, folder, key), None):
                found.setdefault(folder, set()).add(_FOREIGN)
                _compare(stores, folder, head, tree)
        for folder in self._overwritten:
            found.setdefault(folder, set()).add(_OVERWRITTEN)
        return found


def noted(spec: CommitSpec, tables: Tables) -> CommitSpec:
    """Return the spec of a commit that names its tables, as many as fit."""
    named = {folder: sorted(hashes) for folder, hashes in sorted(tables.items())}
    while len(text := json.dumps(named)) > _MOST:
        named.popitem()
    return replace(spec, metadata={**spec.metadata, TABLES: text}) if named else spec


def tables_outside(stores: Stores, start: Commit, other: Commit) -> Tables:
    """Return the tables that were written by `start` and its ancestors, without those of `other`."""
    found: dict[str, set[str]] = {}
    for commit in outside(stores.refs.commits, start.id, other.id):
        for folder, hashes in json.loads(commit.metadata.get(TABLES, "{}")).items():
            found.setdefault(folder, set()).update(hashes)
    return found


def check_merged(
    stores: Stores, base: str, source: Commit, dest: Commit, tree: str, *, settled: bool = False
) -> None:
    """Compare the tables that both sides of a merge have changed."""
    if tree in (source.metarange, dest.metarange):
        return
    ours, theirs = (tables_outside(stores, *pair) for pair in ((source, dest), (dest, source)))
    if not settled:
        _check_overwritten(stores, ours, source, dest, tree)
    for folder in sorted({*ours, *theirs}):
        some, others = ({*tables.get(folder, ())} - {_OVERWRITTEN} for tables in (ours, theirs))
        if not (some or others):
            continue
        if some and others and _FOREIGN not in some | others and (some <= others or others <= some):
            continue
        if all(
            hashes or next(diff(stores.ranges, base, side.metarange, prefix=folder.encode()), None)
            for hashes, side in ((some, source), (others, dest))
        ):
            _compare(stores, folder, dest, tree)


def _check_overwritten(
    stores: Stores, tables: Tables, source: Commit, dest: Commit, tree: str
) -> None:
    """Refuse a result in which overwritten folders have files that the source does not have."""
    folders = sorted(folder for folder, hashes in tables.items() if _OVERWRITTEN in hashes)
    conflicts = []
    for prefix, kinds, overwritten in _partitions(stores, source.metarange, folders):
        for key, ours, now in diff(stores.ranges, source.metarange, tree, prefix=prefix):
            name = key.removeprefix(prefix).decode()
            if not is_in_table(name) or is_hidden(name):
                continue
            values = _values(name, kinds)
            if any(values[:depth] in overwritten for depth in range(len(values) + 1)):
                new, other = (value and decode_entry(key, value) for value in (ours, now))
                conflicts.append(Conflict(key.decode(), None, new or None, other or None))
    if conflicts:
        shown = ", ".join(repr(one.path) for one in conflicts[:_SHOWN])
        more = f" and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
        raise MergeConflictError(
            f"commit {source.id[:12]} overwrites folders ({', '.join(map(repr, folders[:_SHOWN]))}) in which "
            f"{dest.id[:12]} has changed files ({shown}{more}); nothing has landed: overwrite what is there "
            "now, in a run that starts from the present head; or merge with a strategy",
            tuple(conflicts[:_KEPT]),
            len(conflicts),
        )


def _partitions(
    stores: Stores, tree: str, folders: Iterable[str]
) -> Iterator[tuple[bytes, Mapping[str, str], set[_Values]]]:
    tables: dict[str, list[str]] = {}
    for folder in folders:
        below = "".join(f"{part}/" for part in value_folders(folder))
        tables.setdefault(folder.removesuffix(below), []).append(below)
    for table, belows in tables.items():
        prefix = table.encode()
        first = f"{table}{belows[0]}".encode()
        kept = (
            schemas.kept_of(decode_entry(*row))
            for row in scan(stores.ranges, tree, first, prefix_end(first))
        )
        fields = schemas.fields_of(next((partitions for _, partitions in kept if partitions), ""))
        kinds = {field["name"]: field["type"] for field in fields}
        yield prefix, kinds, {_values(below, kinds) for below in belows}


def _values(name: str, kinds: Mapping[str, str]) -> _Values:
    pairs = folder_values(name)
    return tuple(
        (column, schemas.value_of(value, kinds.get(column, ""))) for column, value in pairs
    )


def check_picked(
    stores: Stores,
    base: Commit,
    source: Commit,
    dest: Commit,
    tree: str,
    *,
    settled: bool = False,
) -> Tables:
    """Return the tables that a commit has written, after a comparison with the head it is picked onto."""
    named = tables_outside(stores, source, base)
    if not settled:
        _check_overwritten(stores, named, source, dest, tree)
    watch = Watch()  # not by the commits since: an old commit may be below a hundred thousand
    for _ in watch.of(map(staged, diff(stores.ranges, dest.metarange, tree))):
        pass
    found = watch.check(stores, dest, tree)
    for folder, hashes in found.items():
        hashes.discard(_OVERWRITTEN)  # files that return do not overwrite again
        hashes.update(named.get(folder, ()))
    return {**named, **found}


def _near(stores: Stores, tree: str, folder: str, key: bytes) -> Iterator[schemas.Kept]:
    """Yield what the first entries of a table keep, those after a key first."""
    start = folder.encode()
    after = scan(stores.ranges, tree, key, prefix_end(start))
    for row in islice(chain(after, scan(stores.ranges, tree, start, key)), _NEAR):
        table = schemas.table_of(*row)
        if table is not None and table[0] == folder:
            yield table[1]


def _compare(stores: Stores, folder: str, head: Commit, tree: str) -> None:
    """Compare the new files of a table with the others, by what their entries or footers have."""
    old, new = _sides(stores, folder, head, tree)
    before = [(*each, f"commit {head.id[:12]} has") for each in old.items()]
    mixed = {name for name, *_ in _faults(old.values())}
    problems: dict[str, str] = {}
    for path, version in new.items():
        for other, known, has in before:
            for name, left, right in _faults([known, version]):
                if name not in mixed:
                    what = f"{name!r} is" if name else "the partition columns are"
                    problems[name] = (
                        f"{what} {schemas.simple_name(right or left)} in {path!r}, which is new, and "
                        f"{schemas.simple_name(left)} in {other!r}, which {has}"
                    )
        before.append((path, version, "is new, too"))
    if problems:
        raise SchemaChangedError(
            f"{folder!r}: {'; '.join(problems.values())}: Spark does not read both as one table, and "
            "nothing has landed: write the new files again with the columns of the table, or into another "
            "folder, or overwrite the whole table by mode 'overwrite' and partition_overwrite='static'"
        )


def _sides(stores: Stores, folder: str, head: Commit, tree: str) -> list[dict[str, _Version]]:
    """Return what the files of a table have, once for each kind: those of a head, and the new ones."""
    prefix, ranges = folder.encode(), stores.ranges
    changed = {change.key for change in diff(ranges, head.metarange, tree, prefix=prefix)}
    kinds: dict[tuple[bool, schemas.Kept], str] = {}
    foreign: tuple[list[Entry], ...] = ([], [])
    for key, value in scan(ranges, tree, prefix, prefix_end(prefix)):
        name, new = key.removeprefix(prefix).decode(), key in changed
        if is_hidden(name) or not is_in_table(name):
            continue
        table = schemas.table_of(key, value)
        if table is None and key.endswith(_PARQUET):
            foreign[new].append(decode_entry(key, value))
        elif table is not None and table[0] == folder:
            kinds.setdefault((new, table[1]), key.decode())
    last = schemas.merge_fields(schemas.fields_of(kept[1]) for _, kept in kinds)[0]
    types = {each["name"]: each["type"] for each in last}
    sides = [_footers(stores, folder, entries, types) if kinds else {} for entries in foreign]
    for (new, kept), path in kinds.items():
        sides[new][path] = schemas.fields_of(kept[0]), schemas.fields_of(kept[1])
    return sides


def _faults(versions: Collection[_Version]) -> schemas.Faults:
    """Return the columns whose types do not go together; the name of partition columns as a whole is ""."""
    merged = (schemas.merge_fields(side)[1] for side in zip(*versions, strict=True))
    first, *others = dict.fromkeys(
        str([each["name"] for each in last]) for _, last in versions
    ) or [""]
    faults = [fault for some in merged for fault in some if "" not in fault[1:]]
    return faults + [("", first, names) for names in others]


def _footers(
    stores: Stores, folder: str, entries: list[Entry], types: Mapping[str, Any]
) -> dict[str, _Version]:

    def last(entry: Entry) -> list[schemas.Field]:
        pairs = folder_values(entry.path.removeprefix(folder))
        return [
            {"name": name, "type": "" if schemas.fits(value, types.get(name, "")) else "string"}
            for name, value in pairs
        ]

    odd = [entry for entry in entries if any(field["type"] for field in last(entry))]
    some = odd[:1] + entries[:: -(-len(entries) // _FOOTERS) or 1]

    def version(entry: Entry) -> _Version:
        columns: Sequence[schemas.Field] = ()
        with suppress(GravelerError, OSError, ValueError, ImportError):  # a reader reports it
            columns = schemas.parquet_fields(stores, entry)
        return columns, last(entry)

    with Threads(thread_count(None, stores.objects.put_threads)) as pool:
        versions = pool.map(version, some)
        return {entry.path: each for entry, each in zip(some, versions, strict=True)}
