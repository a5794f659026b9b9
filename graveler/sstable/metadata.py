"""The metadata of a table: the properties block, and the index of one or two levels.

The index has a handle for each data block, and a separator, a key at or after the last key of the
block.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from graveler.model import BLOCK_BYTES
from graveler.sstable.block import KEY_TRAILER_BYTES, PAIR_BYTES, bounds, entries, join_key
from graveler.sstable.format import (
    TRAILER_BYTES,
    DamageError,
    Handle,
    located,
    read_handle,
    read_varint,
)

ROCKSDB_PROPERTIES = b"rocksdb.properties"
"""The properties block's name in the metaindex."""
SESSION = "rocksdb.creating.session.identity"
HOST = "rocksdb.creating.host.identity"
ORIGINAL_FILE_NUMBER = "rocksdb.original.file.number"
TWO_LEVELS = 2

_OURS = "graveler."
_COMPARATOR = b"leveldb.BytewiseComparator"
_ONE_LEVEL = 0


class IndexForm(NamedTuple):
    """The form of the index.

    Attributes:
        delta: Handles are stored as differences from the previous handle.
        user_keys: Separators have no trailer of type and sequence number.
    """

    kind: int
    delta: bool
    user_keys: bool


def number(properties: Mapping[str, bytes], name: str) -> int:
    """Return the varint under `name`, or 0 if it is missing."""
    raw = properties.get(name, b"\0")
    value, end = read_varint(raw, 0)
    if end != len(raw):
        raise DamageError(f"property {name} is not a number: {raw[:20]!r}")
    return value


def index_form(properties: Mapping[str, bytes]) -> IndexForm:
    """Return the form of the index, or raise DamageError if it is not supported."""
    kind = int.from_bytes(properties.get("rocksdb.block.based.table.index.type", b""), "little")
    if kind not in (_ONE_LEVEL, TWO_LEVELS):
        raise DamageError(f"index type {kind} is not supported: use 0 or 2")
    return IndexForm(
        kind,
        delta=number(properties, "rocksdb.index.value.is.delta.encoded") != 0,
        user_keys=number(properties, "rocksdb.index.key.is.user.key") != 0,
    )


def check_readable(metaindex: Mapping[bytes, object], properties: Mapping[str, bytes]) -> None:
    """Raise DamageError for a table with features that the reader does not support."""
    for block in (b"rocksdb.compression_dict", b"rocksdb.range_del", b"rocksdb.range_del2"):
        if block in metaindex:
            raise DamageError(f"block {block.decode()} is not supported")
    comparator = properties.get("rocksdb.comparator", _COMPARATOR)
    if comparator != _COMPARATOR:
        raise DamageError(f"keys are ordered by {comparator[:60]!r}, not bytewise")


def record_count(properties: Mapping[str, bytes]) -> int:
    """Return the number of records that the properties state."""
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


def encode_user_properties(properties: Mapping[str, str]) -> dict[str, bytes]:
    """Return the properties as a table stores them: prefixed names, UTF-8 values."""
    return {_OURS + name: value.encode() for name, value in properties.items()}


class Index(NamedTuple):
    """The data blocks in the order of their keys.

    Attributes:
        separators: For each block, a key at or after its last key and before the next block.
    """

    separators: list[bytes]
    handles: list[Handle]


def read_index(read_block: Callable[[Handle], bytes], root: Handle, form: IndexForm) -> Index:
    """Return the index whose first block is at `root`."""
    parts = [root]
    if form.kind == TWO_LEVELS:
        with located(f"index at {root.offset}"):
            parts = [handle for _, handle in _entries(read_block(root), form)]
            _check_apart(parts)
    index = Index([], [])
    left = BLOCK_BYTES
    for part in parts:
        with located(f"index at {part.offset}"):
            for separator, handle in _entries(read_block(part), form):
                left -= len(separator) + PAIR_BYTES
                if left < 0:
                    raise DamageError(f"the keys take more than {BLOCK_BYTES} bytes")
                if index.separators and separator <= index.separators[-1]:
                    raise DamageError(f"separator {separator!r} after {index.separators[-1]!r}")
                index.separators.append(separator)
                index.handles.append(handle)
    _check_apart(index.handles)
    return index


def _check_apart(handles: list[Handle]) -> None:
    for one, other in pairwise(handles):
        if other.offset < one.offset + one.size + TRAILER_BYTES:
            raise DamageError(f"the blocks at {one.offset} and {other.offset} overlap")


def _entries(block: bytes, form: IndexForm) -> Iterator[tuple[bytes, Handle]]:
    plain = ((key, read_handle(value, 0)[0]) for key, value in entries(block))
    for key, handle in _delta_entries(block) if form.delta else plain:
        if form.user_keys:
            yield key, handle
        elif len(key) < KEY_TRAILER_BYTES:
            raise DamageError(f"separator {key!r} has no trailer")
        else:
            yield key[:-KEY_TRAILER_BYTES], handle


def _delta_entries(block: bytes) -> Iterator[tuple[bytes, Handle]]:
    spent = 0
    handle = Handle(0, 0)
    for start, stop in pairwise(bounds(block)):
        key = b""
        at = start
        while at < stop:
            shared, at = read_varint(block, at)
            rest, at = read_varint(block, at)
            key, at, spent = join_key(block, at, key, shared, rest, spent)
            if shared == 0:
                handle, at = read_handle(block, at)
            else:
                zigzag, at = read_varint(block, at)
                size = handle.size + (zigzag >> 1 ^ -(zigzag & 1))
                handle = Handle(handle.offset + handle.size + TRAILER_BYTES, size)
            yield key, handle
        if at != stop:
            raise DamageError(f"an entry ends at byte {at}, past its restart at {stop}")
