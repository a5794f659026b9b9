"""Entries as an Arrow table: the columns of records are cut out of their bytes, not decoded.

The fields of an entry are at the same places of every record, so a batch of records is one run of bytes
and, for each column, numbers that say where its values are. A column of texts is made by describing the
run as alternating pieces, value and gap, and taking every second one.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from graveler.committed.flat import Run
from graveler.errors import CorruptionError, MissingDependencyError
from graveler.reads.listing import Scan
from graveler.values import ENTRY_HEADER, RECORD_ID_BYTES, entry_fields

try:
    import numpy as np
    import pyarrow as pa
except ImportError as error:
    raise MissingDependencyError(
        "a table of entries needs pyarrow: install it, or graveler with its extra 'arrow'"
    ) from error

SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("mtime", pa.timestamp("us", tz="UTC")),
        pa.field("metadata", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("computed", pa.bool_(), nullable=False),
    ]
)
"""Of every table: the fields of `Entry`."""

_AHEAD: Final = 1 + RECORD_ID_BYTES  # of a value record: its identity and the length of that
_CONTINUED: Final = 0x80
_PLACES: Final = {"lengths": 1, "metadata": 9, "size": 13, "mtime": 21}
"""Of the numbers in the header of an entry's data."""


def reader(snapshot: AbstractContextManager[Scan], start: bytes) -> pa.RecordBatchReader:
    """Return the entries of a snapshot from the key `start` on, batch by batch."""

    def batches() -> Iterator[pa.RecordBatch]:
        with snapshot as scan:
            yield from map(record_batch, scan.runs(start))

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def record_batch(run: Run) -> pa.RecordBatch:
    """Return rows of a tree as a batch of `SCHEMA`.

    Raises:
        CorruptionError: A value record is not that of an entry.
    """
    return _Rows(run).batch()


class _Rows:
    """The places of the fields in a run of rows."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._data = run.data
        self._buffer = pa.py_buffer(run.data)
        self._bytes = np.frombuffer(run.data, np.uint8)
        ends = np.array(run.ends, np.int64)
        ends -= ends[0]
        self._starts, self._stops = ends[:-1], ends[1:]
        self._key_stops = self._starts + np.asarray(run.lengths)
        self._at = self._headers()
        self._flags = self._numbers("<u1", self._at)
        lengths = [
            self._numbers("<u2", self._at + _PLACES["lengths"] + 2 * place) for place in range(4)
        ]
        lengths.append(self._numbers("<u4", self._at + _PLACES["metadata"]))
        self._text_stops = np.cumsum(
            [self._at + ENTRY_HEADER.size, *lengths], axis=0, dtype=np.int64
        )
        wrong = self._text_stops[-1] != self._stops
        if wrong.any():
            self._refuse(wrong)

    def batch(self) -> pa.RecordBatch:
        """Return the rows."""
        address, checksum, content_type, version = (
            self._texts(self._text_stops[place], self._text_stops[place + 1]) for place in range(4)
        )
        no_time = self._flags & 2 == 0
        times = pa.array(self._numbers("<i8", self._at + _PLACES["mtime"]), mask=no_time)
        return pa.record_batch(
            [
                self._texts(self._starts, self._key_stops),
                address,
                pa.array(self._numbers("<i8", self._at + _PLACES["size"])),
                checksum,
                content_type,
                times.cast(pa.int64()).cast(SCHEMA.field("mtime").type),
                self._metadata(),
                version,
                pa.array(self._flags & 1 == 1),
            ],
            schema=SCHEMA,
        )

    def _headers(self) -> Any:
        """Return where the data of each entry begins, behind identity and lengths."""
        at = self._key_stops + _AHEAD
        bad = (at + 1 + ENTRY_HEADER.size > self._stops) | (
            self._bytes[self._key_stops] != RECORD_ID_BYTES
        )
        if bad.any():
            self._refuse(bad)
        long = self._bytes[at] >= _CONTINUED
        longer = long & (self._bytes[at + 1] >= _CONTINUED)
        at = at + 1 + long + longer
        if (at + ENTRY_HEADER.size > self._stops).any():
            self._refuse(at + ENTRY_HEADER.size > self._stops)
        return at

    def _numbers(self, kind: str, at: Any) -> Any:
        """Return the numbers that begin at these places, aligned or not."""
        width = np.dtype(kind).itemsize
        everywhere = np.ndarray((len(self._data) - width + 1,), kind, self._data, strides=(1,))
        return everywhere[at]

    def _texts(self, starts: Any, stops: Any) -> pa.Array:
        """Return the texts between these places."""
        count = len(starts)
        if (starts == stops).all():
            return pa.array([""], pa.string()).take(pa.array(np.zeros(count, np.int64)))
        edges = np.empty(2 * count, np.int32)
        edges[::2], edges[1::2] = starts, stops
        pieces = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), self._buffer]
        )
        try:
            return pieces.take(pa.array(np.arange(0, 2 * count, 2))).cast(pa.string())
        except pa.ArrowInvalid:
            self._refuse(np.ones(count, bool))
            raise

    def _metadata(self) -> pa.Array:
        starts, stops = self._text_stops[4], self._text_stops[5]
        counts = np.zeros(len(starts) + 1, np.int32)
        names: list[str] = []
        values: list[str] = []
        for row in np.flatnonzero(starts < stops).tolist():
            pairs = json.loads(self._data[starts[row] : stops[row]])
            counts[row + 1] = len(pairs)
            names += pairs.keys()
            values += pairs.values()
        texts = (pa.array(column, pa.string()) for column in (names, values))
        return pa.MapArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), *texts)

    def _refuse(self, suspects: Any) -> None:
        """Raise the error of the first of these rows that cannot be decoded."""
        keys, values = self._run.columns()
        for row in np.flatnonzero(suspects).tolist():
            entry_fields(keys[row], values[row])
        raise CorruptionError(f"entries from {keys[0]!r} to {keys[-1]!r} are no entries")
