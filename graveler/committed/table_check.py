"""Is this table what its name says? Recomputes a range's or metarange's id from its records.

The checksums of the blocks prove that the bytes are those that somebody wrote; only the
id proves that they are the records the tree asked for.
"""

from collections.abc import Iterator
from enum import StrEnum
from hashlib import sha256

from graveler.errors import CorruptionError
from graveler.identity import record_id
from graveler.records import FORMAT, check_format
from graveler.sstable.reader import TableReader

__all__ = ["TableKind", "check_table", "checked_ids", "table_properties"]


class TableKind(StrEnum):
    """What a table holds: entries behind paths, or ranges behind their last keys."""

    RANGE = "range"
    METARANGE = "metarange"


def table_properties(
    kind: TableKind, *, min_key: bytes, max_key: bytes, count: int, size: int
) -> dict[str, str]:
    """Return the user properties of a table's file.

    Args:
        kind: Range or metarange.
        min_key: The table's first key.
        max_key: The table's last key.
        count: Records.
        size: Logical bytes: the sum of key and value lengths.
    """
    return {
        "format": str(FORMAT),
        "type": kind.value,
        "min_key": min_key.hex(),
        "max_key": max_key.hex(),
        "count": str(count),
        "size": str(size),
    }


def check_table(reader: TableReader, identifier: bytes, kind: TableKind) -> bytes:
    """Return the record ids of a sound table, 32 bytes each, in key order.

    Raises:
        CorruptionError: A block is damaged, keys do not ascend, the records give another
            id, or the properties do not describe them.
        NewerFormatError: A newer graveler wrote it.
        OlderFormatError: An older graveler wrote it.
    """
    return b"".join(checked_ids(reader, identifier, kind))


def checked_ids(reader: TableReader, identifier: bytes, kind: TableKind) -> Iterator[bytes]:
    """Yield the record ids of a table in key order; raise as `check_table` does, at the end.

    Only who has read it to its end knows that the table is sound.
    """
    what = f"{kind} {identifier.hex()}"
    properties = reader.user_properties
    stated = properties.get("format", "1")  # the first format did not name itself
    check_format(int(stated) if stated.isdecimal() else stated, what)
    digest = sha256()
    first = last = b""
    count = size = 0
    for key, value in reader.items():
        if key <= last:
            raise CorruptionError(f"{what}: key {key!r} does not come after {last!r}")
        identity = record_id(key, value)
        digest.update(identity)
        yield identity
        size += len(key) + len(value)
        first = first or key
        last = key
        count += 1
    if digest.digest() != identifier:
        raise CorruptionError(f"{what} holds the records of {digest.hexdigest()} ({count} of them)")
    expected = table_properties(kind, min_key=first, max_key=last, count=count, size=size)
    for name, says in expected.items():
        if properties.get(name) != says:
            raise CorruptionError(
                f"{what}: property {name} is {properties.get(name)!r}, its records say {says!r}"
            )
