"""Building the local form of a table: records in, the bytes of the file out.

Records come in batches, so that the memory of their keys and values is reused. The builder keeps
the joined rows and the data of the index.
"""

import sys
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import add

from xxhash import xxh3_64_digest, xxh3_64_intdigest, xxh3_128_digest

from graveler.committed.cache.flat import (
    HEADER,
    LAST_SLOTS,
    MAGIC,
    PAGE_BYTES,
    SLOTS_PER_KEY,
    VERSION,
    bounds_sum,
)
from graveler.errors import InvalidInputError
from graveler.values import RecordsDigest

_MOST_BYTES = (1 << 32) - 1
_LONGEST_KEY = (1 << 16) - 1

Piece = bytes | memoryview


class Form:
    """The local form of a table whose records are added in key order."""

    def __init__(self) -> None:
        self._hashes = bytearray()  # the hash of each key, big-endian
        self._lengths = array("I")  # the length of each key, followed by that of its value record
        self._rows = bytearray()
        self._first = self._last = b""  # keys

    def add(self, keys: Sequence[bytes], values: Sequence[bytes], lengths: bytes = b"") -> None:
        """Add records."""
        parts = [b""] * (2 * len(keys))
        parts[::2], parts[1::2] = keys, values
        self._first, self._last = self._first or keys[0], keys[-1]
        self._hashes += b"".join(map(xxh3_64_digest, keys))
        if lengths:
            self._lengths.frombytes(lengths)
        else:
            self._lengths.extend(map(len, parts))
        self._rows += b"".join(parts)

    @property
    def count(self) -> int:
        """The number of records so far."""
        return len(self._lengths) // 2

    @property
    def size(self) -> int:
        """The size of their keys and values."""
        return len(self._rows)

    def digest(self) -> Callable[[], bytes]:
        """Return a function that computes the digest of the records so far. Any thread may call it."""
        digest = RecordsDigest()

        def compute() -> bytes:
            digest.add_rows((memoryview(self._rows),), self._lengths)  # one call, without the GIL
            return digest.digest()

        return compute

    def finish(
        self, kind: int, identifier: bytes, record_ids: bytes = b"", *, digest: bytes = bytes(32)
    ) -> list[Piece]:
        """Return the file in pieces. No records may be added afterwards."""
        size = self.size
        longest = max(self._lengths[::2])
        if size > _MOST_BYTES or longest > _LONGEST_KEY:
            raise InvalidInputError(
                f"table {identifier.hex()} has {size} bytes in keys of up to {longest} bytes and "
                f"values: up to {_MOST_BYTES} and {_LONGEST_KEY}; give its repository smaller ranges"
            )
        if record_ids:
            self._rows += record_ids
        data = memoryview(self._rows)
        count = self.count
        parts = self._index(count)
        index = memoryview(b"".join(raw + bytes(-len(raw) % 8) for raw in parts))
        # the first page of the index is the shorter one, so that the pages of the data follow
        pages = [
            piece[max(0, at) : at + PAGE_BYTES]
            for piece, first in ((index, len(index) % -PAGE_BYTES), (data, 0))
            for at in range(first, len(piece), PAGE_BYTES)
        ]
        sums = array("Q", map(xxh3_64_intdigest, pages)).tobytes()
        known = (MAGIC, VERSION, kind, bool(record_ids), identifier, digest)
        bounds = bounds_sum(self._first, self._last)
        fields = (*known, count, size, len(parts[0]) // 4, bounds)
        head = HEADER.pack(*fields, xxh3_128_digest(HEADER.pack(*fields, bytes(16)) + sums))
        return [head, sums, index, data]

    def _index(self, count: int) -> Sequence[bytes]:
        """Return slots, ends and lengths of keys."""
        lengths, homes, shift = self._lengths, SLOTS_PER_KEY * count, count.bit_length()
        if "numpy" not in sys.modules:
            hashes = array("Q", bytes(self._hashes))
            if sys.byteorder == "little":
                hashes.byteswap()
            slots, tags = array("I"), _MOST_BYTES
            for row in sorted(range(len(hashes)), key=hashes.__getitem__):
                home = (hashes[row] >> 32) * homes >> 32
                slots.extend([0] * (home - len(slots)))
                slots.append((hashes[row] << shift & tags) | (row + 1))
            slots.extend([0] * (max(0, homes - len(slots)) + LAST_SLOTS))
            ends = accumulate(map(add, lengths[::2], lengths[1::2]), initial=0)
            known = slots, array("I", ends), array("H", lengths[::2])
            return [numbers.tobytes() for numbers in known]
        import numpy

        each = numpy.frombuffer(self._hashes, ">u8").astype("u8")
        pairs = numpy.asarray(lengths).reshape(-1, 2)
        order = each.argsort()
        ascending = each[order]
        if (ascending[1:] == ascending[:-1]).any():
            order = each.argsort(kind="stable")  # several times slower
        steps = numpy.arange(count)
        at = ((ascending >> 32) * homes >> 32).astype("i8") - steps
        at = numpy.maximum.accumulate(at) + steps
        taken = numpy.zeros(max(int(at[-1]) + 1, homes) + LAST_SLOTS, "u4")
        taken[at] = (ascending << shift).astype("u4") | (order + 1).astype("u4")
        places = numpy.concatenate(([0], pairs.sum(axis=1, dtype="u8").cumsum()))
        return taken.tobytes(), places.astype("u4").tobytes(), pairs[:, 0].astype("u2").tobytes()
