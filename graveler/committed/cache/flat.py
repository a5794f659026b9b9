"""The local form of a table: one file that is mapped into memory. A lookup decodes nothing.

It is built once on each host, from checked records: header, sums of pages, an index of hashes,
rows, record ids. A page is checked when this process first reads it, and a damaged form is built
again from the object store. ``docs/formats/flat.md`` has the bytes. Equal records give equal bytes.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from mmap import mmap
from operator import add, eq
from struct import Struct
from struct import error as StructError  # noqa: N812 - the name of a class
from typing import Any, NamedTuple, Self

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from graveler.errors import CorruptionError, InternalError
from graveler.values import RECORD_ID_BYTES

MAGIC = b"graveler flat"
VERSION = 5
HEADER = Struct("<13sBB?32s32sQQQ16s16s")
_LOW = (1 << 32) - 1
_SHIFT = 12
PAGE_BYTES = 1 << _SHIFT
_STEP = RECORD_ID_BYTES
_ROWS_AT_ONCE = 8_192
_FIRST_ROWS = 16
SLOTS_PER_KEY = 2
"""A key is in the slot of its hash or in a later one. With two slots per key, it is on average half
a slot further."""
LAST_SLOTS = 8
"""Number of empty slots at the end. A lookup of many keys reads this many slots for each key."""
_SLOTS = Struct(f"={LAST_SLOTS}I")
_BOUNDS = Struct("=2I")
_LOOKS = 8
"""The number of lookups in a table that read single pages of its index. The next one verifies the
whole index. A process that reads little of many tables then reads a fifth of the bytes."""

Buffer = bytes | mmap
"""A whole file, in memory or mapped."""

Record = tuple[bytes, bytes, bytes]
"""Key, record id, value record."""


class Run(NamedTuple):
    """Consecutive rows as one run of bytes.

    Attributes:
        data: Key and value record of each row, side by side. It is a view of their table.
        ends: The start of each row and the end of the last one, relative to an earlier position.
    """

    data: bytes | memoryview
    ends: Sequence[int]
    lengths: Sequence[int]

    @classmethod
    def of(cls, rows: Sequence[tuple[bytes, bytes]]) -> Self:
        """Return (key, value record) pairs as a run."""
        lengths = array("H", [len(key) for key, _ in rows])
        ends = array("I", accumulate((len(key) + len(value) for key, value in rows), initial=0))
        data = b"".join(chain.from_iterable(rows))
        return cls(data, memoryview(ends), memoryview(lengths))

    def columns(self) -> tuple[list[bytes], list[bytes]]:
        """Return the keys, and the value records."""
        data, places = bytes(self.data), self.ends.tolist()  # type: ignore[attr-defined]
        first = places[0]
        if first:
            places = [place - first for place in places]
        middles = list(map(add, places, self.lengths))
        return (
            [data[at:middle] for at, middle in zip(places, middles, strict=False)],
            [
                data[middle:end]
                for middle, end in zip(middles, islice(places, 1, None), strict=True)
            ],
        )


class _Arrays(NamedTuple):
    """The index of a table as arrays of numpy.

    Attributes:
        near: For each slot, the `LAST_SLOTS` slots from there on. The items overlap.
        by_width: Key length to a view of the file with a key of that length at each position.
    """

    near: Any
    bounds: Any
    lengths: Any
    rows_at: Any
    by_width: dict[int, Any]


def bounds_sum(first: bytes, last: bytes) -> bytes:
    """Return a checksum of the first and the last key of a table. Readers compare it."""
    return xxh3_128_digest(len(first).to_bytes(2, "little") + first + last)


def _places(slots: int, count: int, data_bytes: int) -> tuple[int, int, int, int, int]:
    """Return where the parts of a file begin: slots, ends, lengths, rows, and the grid of pages."""
    sizes = (4 * slots, 4 * count + 4, 2 * count)
    *places, index_bytes = accumulate((size + -size % 8 for size in sizes), initial=0)
    index_pages = -(-index_bytes // PAGE_BYTES)
    slots_at = HEADER.size + 8 * (index_pages - -data_bytes // PAGE_BYTES)
    rows_at = slots_at + index_bytes
    _, ends, lengths = places
    return (
        slots_at,
        slots_at + ends,
        slots_at + lengths,
        rows_at,
        rows_at - index_pages * PAGE_BYTES,
    )


class DamagedFileError(Exception):
    """A file is not the expected local form: it is damaged, or of another version or table."""


class OtherVersionError(DamagedFileError):
    """A file has another version. Building the form again replaces it."""


Rebuild = Callable[[bool], bytes]
"""Builds the local form of a table from the object store again, with or without record ids."""


class FlatTable:
    """The records of a table in its local form, by row or by key.

    Rows are counted from 0 in key order. Any number of threads may use one table.

    Args:
        rebuild: Called if a page is damaged.

    Attributes:
        numbered: Whether it has record ids. Its records were then verified against the table's id.
        digest: The digest against which its records were verified if it has no record ids.
        checked: The object with which the table was last compared, set by a caller.
    """

    __slots__ = (
        "_arrays", "_base", "_ends", "_id", "_ids_at", "_lengths", "_looks", "_mask", "_places",
        "_rebuild", "_slots", "_sound", "_sums", "_verified", "_view", "bounds", "buffer", "checked", "count",
        "digest", "homes", "kind", "memory_bytes", "name", "numbered", "rows_at", "shift", "used",
    )  # fmt: skip

    def __init__(
        self, buffer: Buffer, kind: int, identifier: bytes, *, name: str, rebuild: Rebuild
    ) -> None:
        self.name = name
        self.kind = kind
        self._id = identifier
        self._rebuild = rebuild
        self.used = False
        self.checked: object = None
        self._open(buffer)

    def _open(self, buffer: Buffer) -> None:
        try:
            *known, row_bytes, slots, bounds, head_sum = HEADER.unpack_from(buffer)
        except StructError as error:
            raise DamagedFileError(f"{self.name}: {error}") from error
        magic, version, kind, numbered, identifier, digest, count = known
        if magic != MAGIC:
            raise DamagedFileError(f"{self.name} is not a local form")
        if version != VERSION:
            raise OtherVersionError(f"{self.name} is a local form of version {version}")
        if (kind, identifier) != (self.kind, self._id):
            raise DamagedFileError(f"{self.name} is the form of {kind} {identifier.hex()}")
        data_bytes = row_bytes + _STEP * count * numbered
        slots_at, ends_at, lengths_at, rows_at, base = _places(slots, count, data_bytes)
        if rows_at + data_bytes != len(buffer):
            raise DamagedFileError(
                f"{self.name} has {len(buffer)} bytes, not those of {count} rows"
            )
        head = HEADER.size
        sums = buffer[head:slots_at]
        if xxh3_128_digest(buffer[: head - 16] + bytes(16) + sums) != head_sum:
            raise DamagedFileError(f"{self.name} is damaged")
        self._sums = memoryview(sums).cast("Q")
        self._places = slots_at, ends_at, lengths_at
        self._looks = _LOOKS
        self._slots: Sequence[int] | None = None
        self._arrays: _Arrays | None = None
        self.rows_at: int = rows_at
        self._base = base
        self._ids_at: int = rows_at + row_bytes
        self._verified = bytearray(len(sums) // 8)
        self._sound = False
        self.count: int = count
        self.bounds: bytes = bounds
        self.homes = SLOTS_PER_KEY * count
        self.shift = count.bit_length()
        self._mask = (1 << self.shift) - 1
        self.numbered: bool = numbered
        self.digest: bytes = digest
        self.memory_bytes = len(self._verified) + (len(buffer) if type(buffer) is bytes else 0)
        self.buffer = buffer
        self._view = memoryview(buffer)

    def _read_index(self) -> Sequence[int]:
        """Verify the whole index. Return the slots."""
        slots_at, ends_at, lengths_at = self._places
        self._check(slots_at, self.rows_at)
        view, count = self._view, self.count
        self._ends = view[ends_at : ends_at + 4 * count + 4].cast("I")
        self._lengths = view[lengths_at : lengths_at + 2 * count].cast("H")
        # the last one, because other threads look for it
        self._slots = slots = view[slots_at:ends_at].cast("I")
        return slots

    def _check(self, start: int, stop: int) -> None:
        """Verify the unverified pages between two positions in the index or the data."""
        base = self._base
        first, last = (start - base) >> _SHIFT, (stop - base - 1) >> _SHIFT
        if start < stop and self._verified.find(0, first, last + 1) >= 0:
            self._verify(first, last)

    def _read(self, start: int, stop: int) -> bytes:
        """Return verified bytes of the index or the data, by positions in the file."""
        self._check(start, stop)
        return self.buffer[start:stop]

    def _verify(self, first: int, last: int) -> None:
        if first == last:
            start = self._base + (first << _SHIFT)
            page = self._view[max(start, self._places[0]) : start + PAGE_BYTES]
            matches = xxh3_64_intdigest(page) == self._sums[first]
        else:
            matches = self._matches(first, last)
        if matches:
            self._verified[first : last + 1] = b"\1" * (last + 1 - first)
            self._sound = self._verified.find(0) < 0
        else:
            self._heal()

    def _matches(self, first: int, last: int) -> bool:
        # no copy and no Python frame for each page: a listing verifies all of them
        view, base, end = self._view, self._base, last + 1
        starts: Iterable[int] = range(base + (first << _SHIFT), base + (end << _SHIFT), PAGE_BYTES)
        stops = range(base + (first + 1 << _SHIFT), base + (end + 1 << _SHIFT), PAGE_BYTES)
        if not first:  # the first page is the shorter one of the index
            starts = chain(self._places[:1], islice(starts, 1, None))
        pages = map(view.__getitem__, map(slice, starts, stops))
        return all(map(eq, map(xxh3_64_intdigest, pages), self._sums[first:end]))

    def _heal(self) -> None:
        """Build a damaged form again and use it instead. It has the same bytes."""
        try:
            self._open(self._rebuild(self.numbered))
        except DamagedFileError as error:
            raise CorruptionError(f"two builds of table {self.name} differ") from error
        if not self._matches(0, len(self._verified) - 1):
            raise CorruptionError(f"table {self.name} is damaged again while it is built")
        self._verified = bytearray(b"\1") * len(self._verified)
        self._sound = True
        self._read_index()

    def verify(self) -> None:
        """Verify every page that is not verified yet."""
        if not self._sound and self._verified:
            self._verify(0, len(self._verified) - 1)

    def key(self, row: int) -> bytes:
        """Return the key of a row."""
        if self._slots is None:
            self._read_index()
        at = self.rows_at + self._ends[row]
        return self._read(at, at + self._lengths[row])

    def value(self, row: int) -> bytes:
        """Return the value record of a row."""
        if self._slots is None:
            self._read_index()
        at, ends = self.rows_at, self._ends
        return self._read(at + ends[row] + self._lengths[row], at + ends[row + 1])

    def keys(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        """Return the keys of the rows from `start` up to `stop`."""
        return self.run(start, stop).columns()[0]

    def values(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        """Return the value records of the rows from `start` up to `stop`."""
        return self.run(start, stop).columns()[1]

    def run(self, start: int = 0, stop: int | None = None) -> Run:
        """Return the rows from `start` up to `stop`."""
        if self._slots is None:
            self._read_index()
        stop = self.count if stop is None else stop
        ends = self._ends[start : max(start, stop) + 1]
        first, last = self.rows_at + ends[0], self.rows_at + ends[-1]
        self._check(first, last)
        return Run(self._view[first:last], ends, self._lengths[start:stop])

    def record_ids(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the record ids of the rows from `start` up to `stop`, 32 bytes each."""
        if not self.numbered:
            raise InternalError(f"{self.name} was opened without its record ids")
        stop = self.count if stop is None else stop
        at = self._ids_at
        return self._read(at + _STEP * start, at + _STEP * max(start, stop))

    def bisect(self, key: bytes, low: int = 0, high: int | None = None) -> int:
        """Return the first row whose key is at or after `key`."""
        return bisect_left(range(self.count), key, low, high, key=self.key)

    def get(self, key: bytes) -> bytes | None:
        """Return the value record of `key`, or None if there is no such key."""
        bounds = self.find(key)
        return None if bounds is None else self.buffer[bounds[0] + len(key) : bounds[1]]

    def find(self, key: bytes) -> tuple[int, int] | None:
        """Return start and end of a key's row in the file, or None if there is no such row.

        The row holds the key and its value record side by side. It is verified.
        """
        slots = self._slots
        if slots is None:
            if self._looks > 0:
                self._looks -= 1
                return self._look(key)
            slots = self._read_index()
        sought, size, mask = xxh3_64_intdigest(key), len(key), self._mask
        place = (sought >> 32) * self.homes >> 32
        tag = sought << self.shift & _LOW
        while slot := slots[place]:
            # after the tag, a slot has its row, counted from 1
            if (row := slot ^ tag) <= mask and self._lengths[row - 1] == size:
                ends, data = self._ends, self.rows_at
                at, stop = data + ends[row - 1], data + ends[row]
                if not self._sound:  # not a call of _check: this runs for each lookup
                    first, last = (at - self._base) >> _SHIFT, (stop - self._base - 1) >> _SHIFT
                    if self._verified.find(0, first, last + 1) >= 0:
                        self._verify(first, last)
                if self.buffer[at : at + size] == key:
                    return at, stop
            place += 1
        return None

    def _look(self, key: bytes) -> tuple[int, int] | None:
        """Return the result of `find`; read and verify no other pages of the index."""
        (slots_at, ends_at, lengths_at), sought, size = (
            self._places,
            xxh3_64_intdigest(key),
            len(key),
        )
        at = slots_at + 4 * ((sought >> 32) * self.homes >> 32)
        tag = sought << self.shift & _LOW
        while True:
            for slot in _SLOTS.unpack(self._read(at, at + _SLOTS.size)):
                if not slot:
                    return None
                row = (slot ^ tag) - 1
                if row < self._mask:
                    place = lengths_at + 2 * row
                    if int.from_bytes(self._read(place, place + 2), sys.byteorder) == size:
                        place = ends_at + 4 * row
                        start, stop = _BOUNDS.unpack(self._read(place, place + _BOUNDS.size))
                        start, stop = self.rows_at + start, self.rows_at + stop
                        if self._read(start, stop).startswith(key):
                            return start, stop
            at += _SLOTS.size

    def find_many(self, keys: Any, places: Any, tags: Any) -> Any:
        """Return the result of `find` for each of many keys of one length, as two columns.

        A missing key has 0 and 0.

        Args:
            keys: An array of numpy whose type is ``V`` and the length, in any order.
        """
        self.verify()
        index = self._arrays or self._as_arrays()
        near = index.near[places].view("u4").reshape(-1, LAST_SLOTS)
        every = near ^ tags[:, None]
        every -= 1  # an empty slot becomes the largest number
        fits = every < self._mask
        rows = every[fits]
        if len(rows) == len(keys):
            found = self._bounds(index, rows)
            if self._has(index, keys, rows, found):
                return found
        here = fits.any(1)
        rows = every[here, fits[here].argmax(1)]
        some = self._bounds(index, rows)
        found = index.rows_at.repeat(2 * len(keys)).reshape(-1, 2)
        if (near[~here] == 0).any(1).all() and self._has(index, keys[here], rows, some):
            found[here], found[~here] = some, 0
            return found
        # several keys have the same tag, or a key is further from its slot
        found[:] = [self.find(key) or (0, 0) for key in map(bytes, keys.tolist())]
        return found

    def _bounds(self, index: _Arrays, rows: Any) -> Any:
        return index.bounds[rows].view("u4").reshape(-1, 2) + index.rows_at

    def _has(self, index: _Arrays, keys: Any, rows: Any, bounds: Any) -> bool:
        """Return whether `rows` have exactly these keys of one length."""
        width, by_width = keys.dtype.itemsize, index.by_width
        if not len(keys):
            return True
        if not (index.lengths.take(rows) == width).all():
            return False
        if width not in by_width:
            import numpy

            # a view with a key at every position of the file: only selected keys are copied
            places = len(self.buffer) - width + 1
            by_width[width] = numpy.ndarray(places, keys.dtype, self.buffer, strides=(1,))
        return bool(by_width[width][bounds[:, 0]].tobytes() == keys.tobytes())

    def _as_arrays(self) -> _Arrays:
        import numpy

        slots = self._slots or self._read_index()
        self._arrays = _Arrays(
            numpy.ndarray(
                (len(slots) - LAST_SLOTS + 1,),
                f"V{4 * LAST_SLOTS}",
                numpy.asarray(slots, "u4"),
                strides=(4,),
            ),
            numpy.ndarray((self.count,), "V8", numpy.asarray(self._ends, "u4"), strides=(4,)),
            numpy.asarray(self._lengths, "u2"),
            numpy.int64(self.rows_at),
            {},
        )
        return self._arrays

    def runs(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[Run]:
        """Yield the rows from key `start` up to `stop`. The first batch after a `start` is small."""
        row = self.bisect(start) if start else 0
        end = self.count if stop is None else self.bisect(stop, row)
        rows = _FIRST_ROWS if start else _ROWS_AT_ONCE
        while row < end:
            following = min(row + rows, end)
            yield self.run(row, following)
            row, rows = following, min(4 * rows, _ROWS_AT_ONCE)

    def records(self) -> list[Record]:
        """Return every record with its id."""
        ids = self.record_ids()
        places = range(0, len(ids), _STEP)
        keys, values = self.run().columns()
        return list(zip(keys, [ids[at : at + _STEP] for at in places], values, strict=True))
