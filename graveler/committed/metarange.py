"""A metarange: the list of the ranges of a tree, stored as a table.

The key is the last key of a range, the value is the record of the range. The id of a metarange
follows from its records like the id of a range. The empty tree has an id and no file.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from graveler.committed.cache.flat import Run
from graveler.committed.cache.table import (
    FinishedTable,
    Scratch,
    TableFile,
    TableKind,
    local_form,
    table_properties,
)
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.tree import Tree, tree_of
from graveler.model import RangeInfo
from graveler.values import range_id

EMPTY_METARANGE = sha256(b"").hexdigest()


def write(store: RangeStore, infos: Sequence[RangeInfo]) -> str:
    """Publish the tree of these ranges, given in key order. Return its id in hex."""
    tree = tree_of(infos)
    if infos:
        size = sum(map(len, tree.keys())) + sum(map(len, tree.values()))
        scratch = Scratch(store.cache.scratch, largest=size)
        try:
            store.publish([table_of(store, tree, scratch.file())])
        finally:
            scratch.close()
    return remember(store, tree)


def table_of(store: RangeStore, tree: Tree, file: TableFile) -> FinishedTable:
    """Return the table of a tree with at least one range, written to a file."""
    keys, values, record_ids = tree.keys(), tree.values(), tree.record_ids()
    whole = RangeInfo(
        id=range_id((record_ids,)),
        min_key=keys[0],
        max_key=keys[-1],
        count=len(tree),
        size=sum(map(len, keys)) + sum(map(len, values)),
    )
    with store.table_writer(file) as table:
        records = table.records
        for key, value in zip(keys, values, strict=True):
            records[key] = value
        table.finish(whole.id, table_properties(TableKind.METARANGE, whole))
    form = local_form(TableKind.METARANGE, whole, record_ids, [(keys, values)])
    return FinishedTable(whole.id, TableKind.METARANGE, file, record_ids, form)


def remember(store: RangeStore, tree: Tree) -> str:
    """Keep a published tree in memory. Return its id in hex."""
    metarange = range_id((tree.record_ids(),)).hex()
    store.cache.metaranges.put(metarange, tree)
    return metarange


_EMPTY = tree_of(())


def read(store: RangeStore, metarange: str) -> Tree:
    """Return the ranges of a tree in key order."""
    if metarange == EMPTY_METARANGE:
        return _EMPTY
    store.stats.metaranges_read += 1
    tree = store.cache.metaranges.get(metarange)
    if tree is None:
        tree = Tree(store.open(bytes.fromhex(metarange), TableKind.METARANGE))
        store.cache.metaranges.put(metarange, tree)
    return tree


def get(store: RangeStore, metarange: str, key: bytes) -> bytes | None:
    """Return the value of `key` in a tree, or None if it is missing. Opens at most one range."""
    info = read(store, metarange).find(key)
    return None if info is None else store.open_range(info).get(key)


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key after all keys with `prefix`, or None if there is no such key."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def runs(
    store: RangeStore, infos: Sequence[RangeInfo], start: bytes = b"", stop: bytes | None = None
) -> Iterator[Run]:
    """Yield the rows from key `start` up to `stop` in batches."""
    return (run for _, run in ranged_runs(store, infos, start, stop))


def ranged_runs(
    store: RangeStore, infos: Sequence[RangeInfo], start: bytes = b"", stop: bytes | None = None
) -> Iterator[tuple[RangeInfo, Run]]:
    """Yield the rows from key `start` up to `stop` in batches, each batch with its range."""
    inside = tree_of(infos).within(start, stop)
    for table, info in zip(store.ahead(inside), inside, strict=True):
        for run in table.runs(
            start if info.min_key < start else b"",
            None if stop is None or info.max_key < stop else stop,
        ):
            yield info, run


def scan(
    store: RangeStore, metarange: str, start: bytes = b"", stop: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of a tree from `start` up to, not including, `stop`."""
    for run in runs(store, read(store, metarange), start, stop):
        yield from zip(*run.columns(), strict=True)
