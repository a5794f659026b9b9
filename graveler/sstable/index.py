"""The index: for each data block a separator, at or after its last key, and its handle.

Above a size that the writer chooses the index is cut in two levels: one block whose
entries lead to blocks of the index, each of the same form.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from graveler.sstable.block import KEY_TRAILER_BYTES, bounds, entries, join_key, spend
from graveler.sstable.format import (
    TRAILER_BYTES,
    DamageError,
    Handle,
    located,
    read_handle,
    read_varint,
)
from graveler.sstable.properties import TWO_LEVELS, IndexForm


class Index(NamedTuple):
    """The data blocks in the order of their keys.

    Attributes:
        separators: Of each block: its keys are at or before it, and after the one before.
        handles: The position of each block.
    """

    separators: list[bytes]
    handles: list[Handle]


def read_index(read_block: Callable[[Handle], bytes], root: Handle, form: IndexForm) -> Index:
    """Return the index whose first block is at `root`.

    Args:
        read_block: Returns the verified, decompressed block at a handle.
        root: The index block that the footer or the metaindex names.
        form: What the properties say of it.

    Raises:
        DamageError: The index does not parse, or does not ascend in keys and in offsets.
    """
    parts = [root]
    if form.kind == TWO_LEVELS:
        with located(f"index at {root.offset}"):
            parts = [handle for _, handle in _entries(read_block(root), form)]
            _check_apart(parts)
    index = Index([], [])
    spent = 0
    for part in parts:
        with located(f"index at {part.offset}"):
            for separator, handle in _entries(read_block(part), form):
                spent = spend(spent, separator)
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
    for key, handle in _delta_entries(block) if form.delta else _plain_entries(block):
        if form.user_keys:
            yield key, handle
        elif len(key) < KEY_TRAILER_BYTES:
            raise DamageError(f"separator {key!r} has no trailer")
        else:
            yield key[:-KEY_TRAILER_BYTES], handle


def _plain_entries(block: bytes) -> Iterator[tuple[bytes, Handle]]:
    for key, value in entries(block):
        yield key, read_handle(value, 0)[0]


def _delta_entries(block: bytes) -> Iterator[tuple[bytes, Handle]]:
    spent = 0
    handle = Handle(0, 0)
    for start, stop in pairwise(bounds(block)):
        key = b""
        at = start
        while at < stop:
            shared, at = read_varint(block, at)
            rest, at = read_varint(block, at)
            key, at = join_key(block, at, key, shared, rest)
            spent = spend(spent, key)
            if shared == 0:
                handle, at = read_handle(block, at)
            else:
                zigzag, at = read_varint(block, at)
                size = handle.size + (zigzag >> 1 ^ -(zigzag & 1))
                handle = Handle(handle.offset + handle.size + TRAILER_BYTES, size)
            yield key, handle
        if at != stop:
            raise DamageError(f"an entry ends at byte {at}, past its restart at {stop}")
