"""Checking stored tables against the trees that name them, for ``graveler fsck``.

The check reads the object store, never the cache. It reports problems instead of raising errors.
"""

from collections.abc import Generator
from typing import NamedTuple

from graveler.committed.cache.table import TableKind, checked, table_properties
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.model import RangeInfo
from graveler.sstable.reader import TableReader
from graveler.values import RecordsDigest, decode_range_info


class Problem(NamedTuple):
    """A problem of a stored table.

    Attributes:
        id: The id of the table in hex.
    """

    kind: TableKind
    id: str
    message: str


def verify_range(
    store: RangeStore, range_id: bytes, info: RangeInfo | None = None
) -> Generator[Problem, None, TableReader | None]:
    """Yield the problems of a stored range.

    Returns:
        The range, or None if it cannot be read.
    """
    digest = RecordsDigest()
    reader = yield from _checked(store, range_id, TableKind.RANGE, digest)
    if reader is None or info is None:
        return reader
    found = digest.digest()
    if found != info.digest:
        yield Problem(
            TableKind.RANGE,
            range_id.hex(),
            f"digest is {found.hex()}, its metarange says {info.digest.hex()}",
        )
    properties = reader.user_properties
    for name, value in table_properties(TableKind.RANGE, info).items():
        if properties.get(name) != value:
            yield Problem(
                TableKind.RANGE,
                range_id.hex(),
                f"{name} is {properties.get(name)}, its metarange says {value}",
            )
    return reader


def verify_tree(
    store: RangeStore, metarange: str
) -> Generator[Problem, None, tuple[RangeInfo, ...]]:
    """Yield the problems of a stored metarange, without those of its ranges.

    Returns:
        The ranges that it names, as far as it can be read.
    """
    if metarange == EMPTY_METARANGE:
        return ()
    identifier = bytes.fromhex(metarange)
    reader = yield from _checked(store, identifier, TableKind.METARANGE, RecordsDigest())
    if reader is None:
        return ()
    infos: list[RangeInfo] = []
    last = b""
    for key, value in reader.items():
        try:
            info = decode_range_info(key, value)
        except CorruptionError as error:
            yield Problem(TableKind.METARANGE, metarange, str(error))
            continue
        if not last < info.min_key <= info.max_key:
            yield Problem(
                TableKind.METARANGE,
                metarange,
                f"range {info.id.hex()} starts at {info.min_key!r} and ends at "
                f"{info.max_key!r}, the one before ends at {last!r}",
            )
        last = info.max_key
        infos.append(info)
    return tuple(infos)


def _checked(
    store: RangeStore, identifier: bytes, kind: TableKind, digest: RecordsDigest
) -> Generator[Problem, None, TableReader | None]:
    try:
        reader = store.stored(identifier)
        for some, _ in checked(reader, identifier, kind):
            digest.add(some.keys, some.values)
    except (CorruptionError, ObjectNotFoundError) as error:
        yield Problem(kind, identifier.hex(), str(error))
        return None
    return reader
