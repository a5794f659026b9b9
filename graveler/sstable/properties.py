"""The properties block: what the writer says of a table, and what graveler adds.

RocksDB's own properties are ``rocksdb.…``; ours are ``graveler.…``, UTF-8 text.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from graveler.errors import InvalidInputError
from graveler.sstable.format import DamageError, read_varint

ROCKSDB_PROPERTIES: Final = b"rocksdb.properties"
"""The properties block's name in the metaindex."""
SESSION: Final = "rocksdb.creating.session.identity"
HOST: Final = "rocksdb.creating.host.identity"
ORIGINAL_FILE_NUMBER: Final = "rocksdb.original.file.number"
TWO_LEVELS: Final = 2

_OURS: Final = "graveler."
_NAME: Final = re.compile(r"[a-z][a-z0-9_.-]*")
_COMPARATOR: Final = b"leveldb.BytewiseComparator"
_ONE_LEVEL: Final = 0


class IndexForm(NamedTuple):
    """How the index is written.

    Attributes:
        kind: 0 for one block, 2 for two levels.
        delta: Handles are differences from the one before.
        user_keys: Separators have no trailer of type and sequence number.
    """

    kind: int
    delta: bool
    user_keys: bool


def number(properties: Mapping[str, bytes], name: str) -> int:
    """Return the varint under `name`, 0 where it is missing."""
    raw = properties.get(name, b"\0")
    value, end = read_varint(raw, 0)
    if end != len(raw):
        raise DamageError(f"property {name} is no number: {raw[:20]!r}")
    return value


def index_form(properties: Mapping[str, bytes]) -> IndexForm:
    """Return the form of the index, or raise DamageError for one that is not read."""
    kind = int.from_bytes(properties.get("rocksdb.block.based.table.index.type", b""), "little")
    if kind not in (_ONE_LEVEL, TWO_LEVELS):
        raise DamageError(f"index type {kind} is not supported: know 0 and 2")
    return IndexForm(
        kind,
        delta=number(properties, "rocksdb.index.value.is.delta.encoded") != 0,
        user_keys=number(properties, "rocksdb.index.key.is.user.key") != 0,
    )


def check_readable(metaindex: Mapping[bytes, object], properties: Mapping[str, bytes]) -> None:
    """Raise DamageError for a table that holds what a plain list of records cannot say."""
    for block in (b"rocksdb.compression_dict", b"rocksdb.range_del", b"rocksdb.range_del2"):
        if block in metaindex:
            raise DamageError(f"block {block.decode()} is not supported")
    comparator = properties.get("rocksdb.comparator", _COMPARATOR)
    if comparator != _COMPARATOR:
        raise DamageError(f"keys are ordered by {comparator[:60]!r}, not bytewise")


def record_count(properties: Mapping[str, bytes]) -> int:
    """Return how many records the table holds."""
    if "rocksdb.num.entries" not in properties:
        raise DamageError("property rocksdb.num.entries is missing")
    return number(properties, "rocksdb.num.entries")


def user_properties(properties: Mapping[str, bytes]) -> dict[str, str]:
    """Return graveler's properties, without the prefix."""
    try:
        return {
            name.removeprefix(_OURS): value.decode()
            for name, value in properties.items()
            if name.startswith(_OURS)
        }
    except UnicodeDecodeError as error:
        raise DamageError(f"a property is not UTF-8: {error}") from error


def check_identity(identity: bytes) -> None:
    """Raise InvalidInputError for an identity that tells nothing apart."""
    if not identity:
        raise InvalidInputError("a table's identity is empty: give the id of its records")


def encode_user_properties(properties: Mapping[str, str]) -> dict[str, bytes]:
    """Return the properties as a table has them: prefixed names, UTF-8 values.

    Raises:
        InvalidInputError: A name or a value that a table does not take.
    """
    for name in properties:
        if not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"property {name!r}: use a-z, 0-9, '_', '.' and '-', starting with a letter"
            )
    try:
        return {_OURS + name: value.encode() for name, value in properties.items()}
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"a property is not text: {error}") from error
