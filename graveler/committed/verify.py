"""Checking stored tables against the trees that name them, for ``graveler fsck``.

The check reads the object store, never the cache. It reports problems instead of raising errors.
"""

from typing import NamedTuple

from graveler.committed.cache.table import TableKind, checked, table_properties
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.model import RangeInfo
from graveler.sstable.reader import TableReader
from graveler.values import RecordsDigest, decode_range_info


class Problem(NamedTuple):
    """A problem of a stored table."""

    kind: TableKind
    id: str
    message: str


def verify_range(store: RangeStore, info: RangeInfo, problems: list[Problem]) -> TableReader | None:
    """Return a stored range, or None if it cannot be read; add its problems to a list."""
    digest = RecordsDigest()
    reader = _checked(store, info.id, TableKind.RANGE, digest, problems)
    if reader is None:
        return None

    def note(name: str, found: object, stated: object) -> None:
        message = f"{name} is {found}, its metarange says {stated}"
        problems.append(Problem(TableKind.RANGE, info.id.hex(), message))

    found = digest.digest()
    if found != info.digest:
        note("digest", found.hex(), info.digest.hex())
    properties = reader.user_properties
    for name, value in table_properties(TableKind.RANGE, info).items():
        if properties.get(name) != value:
            note(name, properties.get(name), value)
    return reader


def verify_tree(
    store: RangeStore, metarange: str, problems: list[Problem]
) -> tuple[RangeInfo, ...]:
    """Return the ranges of a stored metarange, as far as it can be read; add its problems to a list."""
    if metarange == EMPTY_METARANGE:
        return ()
    identifier = bytes.fromhex(metarange)
    reader = _checked(store, identifier, TableKind.METARANGE, RecordsDigest(), problems)
    infos: list[RangeInfo] = []
    last = b""
    for key, value in reader.items() if reader is not None else ():
        try:
            info = decode_range_info(key, value)
        except CorruptionError as error:
            problems.append(Problem(TableKind.METARANGE, metarange, str(error)))
            continue
        if not last < info.min_key <= info.max_key:
            message = (
                f"range {info.id.hex()} starts at {info.min_key!r} and ends at "
                f"{info.max_key!r}, the one before ends at {last!r}"
            )
            problems.append(Problem(TableKind.METARANGE, metarange, message))
        last = info.max_key
        infos.append(info)
    return tuple(infos)


def _checked(
    store: RangeStore,
    identifier: bytes,
    kind: TableKind,
    digest: RecordsDigest,
    problems: list[Problem],
) -> TableReader | None:
    try:
        reader = store.stored(identifier)
        for some, _ in checked(reader, identifier, kind):
            digest.add(some.keys, some.values)
    except (CorruptionError, ObjectNotFoundError) as error:
        problems.append(Problem(kind, identifier.hex(), str(error)))
        return None
    return reader
