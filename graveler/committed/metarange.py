"""A tree: the list of its ranges, stored as a table of its own.

The key is the last key of a range, the value is the record of the range. The id of a metarange follows
from its records as the id of a range does. The empty tree has an id and no file.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Final

from graveler.committed.range_store import RangeStore
from graveler.committed.table import Scratch, TableKind, table_properties
from graveler.errors import CorruptionError
from graveler.model import RangeInfo
from graveler.sstable.writer import TableWriter
from graveler.values import decode_range_info, encode_range_info, range_id, record_id

EMPTY_METARANGE: Final = sha256(b"").hexdigest()
_max_key = attrgetter("max_key")
_min_key = attrgetter("min_key")


@lru_cache(maxsize=1 << 15)
def _record(info: RangeInfo) -> tuple[bytes, bytes]:
    """Return record id and value of a range; most ranges of a new tree are those of an older one."""
    value = encode_range_info(info)
    return record_id(info.max_key, value), value


def write(store: RangeStore, infos: Sequence[RangeInfo]) -> str:
    """Publish the tree of these ranges, in key order; return its id in hex."""
    if not infos:
        return EMPTY_METARANGE
    records = [_record(info) for info in infos]
    record_ids = b"".join([identifier for identifier, _ in records])
    identifier = range_id((record_ids,))
    size = sum(
        len(info.max_key) + len(value) for info, (_, value) in zip(infos, records, strict=True)
    )
    scratch = Scratch(store.cache.scratch, largest=size)
    try:
        file = scratch.file()
        with TableWriter(file.path) as table:
            for info, (_, value) in zip(infos, records, strict=True):
                table.add(info.max_key, value)
            first, last = infos[0].max_key, infos[-1].max_key
            whole = RangeInfo(identifier, first, last, len(infos), size)
            table.finish(identifier, table_properties(TableKind.METARANGE, whole))
        store.publish(TableKind.METARANGE, identifier, file, record_ids)
        store.metaranges.put(identifier.hex(), tuple(infos))
    finally:
        scratch.close()
    return identifier.hex()


def read(store: RangeStore, metarange: str) -> tuple[RangeInfo, ...]:
    """Return the ranges of a tree in key order.

    Raises:
        CorruptionError: The metarange is damaged or missing.
    """
    if metarange == EMPTY_METARANGE:
        return ()
    store.stats.metaranges_read += 1
    infos = store.metaranges.get(metarange)
    if infos is None:
        table = store.open(bytes.fromhex(metarange), TableKind.METARANGE)
        infos = tuple([decode_range_info(key, value) for key, value in table.items()])
        _check_order(metarange, infos)
        store.metaranges.put(metarange, infos)
    return infos


def _check_order(metarange: str, infos: Sequence[RangeInfo]) -> None:
    last = b""
    for info in infos:
        if not last < info.min_key <= info.max_key:
            raise CorruptionError(
                f"metarange {metarange}: range {info.id.hex()} of {info.min_key!r} to "
                f"{info.max_key!r} does not come after {last!r}"
            )
        last = info.max_key


def find(infos: Sequence[RangeInfo], key: bytes) -> RangeInfo | None:
    """Return the one range that can hold `key`, None where none can."""
    at = bisect_left(infos, key, key=_max_key)
    if at < len(infos) and infos[at].min_key <= key:
        return infos[at]
    return None


def get(store: RangeStore, metarange: str, key: bytes) -> bytes | None:
    """Return the value behind `key` in a tree, None where there is none; opens one range at most."""
    info = find(read(store, metarange), key)
    return None if info is None else store.open_range(info).get(key)


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key after all that start with `prefix`, None where nothing follows."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def within(
    infos: Sequence[RangeInfo], start: bytes = b"", stop: bytes | None = None
) -> Sequence[RangeInfo]:
    """Return the ranges that can hold a key from `start` up to, not including, `stop`."""
    first = bisect_left(infos, start, key=_max_key)
    return infos[first : None if stop is None else bisect_left(infos, stop, first, key=_min_key)]


def stream(
    store: RangeStore, infos: Sequence[RangeInfo], start: bytes = b"", stop: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value from `start` up to `stop`, opening each range when it is reached."""
    for info in within(infos, start, stop):
        items = store.open_range(info).items(start if info.min_key < start else b"")
        if stop is None or info.max_key < stop:
            yield from items
            continue
        for key, value in items:
            if key >= stop:
                return
            yield key, value


def scan(
    store: RangeStore, metarange: str, start: bytes = b"", stop: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of a tree from `start` up to, not including, `stop`."""
    return stream(store, read(store, metarange), start, stop)
