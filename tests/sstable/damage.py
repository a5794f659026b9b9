"""Random damage to the blocks of a table, with correct checksums."""

from collections.abc import Iterator
from random import Random

from graveler.sstable.format import Handle
from graveler.sstable.metadata import TWO_LEVELS, _entries, index_form
from graveler.sstable.reader import BlockFile, TableReader
from tests.sstable.tables import resealed

TELLING = (0, 1, 2, 7, 8, 9, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
"""Bytes that have a meaning for a parser."""


def handles_of(data: bytes) -> list[Handle]:
    """Return the handle of every block of the table."""
    blocks = BlockFile(data)
    form = index_form(blocks.properties())
    parts = [blocks.index]
    if form.kind == TWO_LEVELS:
        parts += [handle for _, handle in _entries(blocks.read(blocks.index), form)]
    tail = [blocks.properties_handle, blocks.footer.metaindex]
    return [*TableReader(data)._index.handles, *parts, *tail]


def mutations(data: bytes, random: Random, rounds: int) -> Iterator[bytes]:
    """Yield the table `rounds` times, each with one to four bytes of a block changed."""
    handles = handles_of(data)
    for _ in range(rounds):
        handle = random.choice(handles)
        damaged = bytearray(data)
        for _ in range(random.choice((1, 1, 2, 4))):
            # the byte after the block is its compression type
            position = handle.offset + random.randrange(handle.size + 1)
            if random.random() < 0.5:
                damaged[position] = random.choice(TELLING)
            else:
                damaged[position] ^= 1 << random.randrange(8)
        yield resealed(bytes(damaged), handle)
