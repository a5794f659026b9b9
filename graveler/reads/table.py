"""Entries as an Arrow table: the columns are cut out of the bytes of records, not decoded.

The fields of an entry are at the same positions in every record. So a batch of records is a run of
bytes, with the positions of the values for each column. A column of texts describes the run as
alternating pieces, value and gap, and takes every second piece.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from graveler.base.background import keep_freed_memory
from graveler.committed.cache.flat import Run
from graveler.errors import CorruptionError, MissingDependencyError
from graveler.reads.listing import Scan
from graveler.reads.schemas import ROWS, stated_rows
from graveler.values import ENTRY_HEADER, RECORD_ID_BYTES, entry_fields

try:
    import numpy as np
    import pyarrow as pa
except ImportError as error:
    raise MissingDependencyError(
        "a table of entries needs pyarrow: install it, or graveler with its extra 'arrow'"
    ) from error

SCHEMA = pa.schema(
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
"""The schema of every table: the fields of `Entry`."""

_BEFORE = np.dtype([("identity", "u1"), ("id", f"V{RECORD_ID_BYTES}"), ("length", "u1", (3,))])
"""Maximum size of the part before an entry's data: its identity, and the length of the data."""
_SHORTEST = 2 + RECORD_ID_BYTES
_CONTINUED = 0x80
_ASCII = 0x80
"""The upper bound of ASCII bytes."""
_HEADER = np.dtype(
    [
        ("flags", "u1"),
        ("lengths", "<u2", (4,)),
        ("metadata", "<u4"),
        ("size", "<i8"),
        ("mtime", "<i8"),
    ]
)
"""The numeric fields of `ENTRY_HEADER`."""


def reader(snapshot: AbstractContextManager[Scan], start: bytes) -> pa.RecordBatchReader:
    """Return the entries of a snapshot from the key `start` on, batch by batch."""

    def batches() -> Iterator[pa.RecordBatch]:
        keep_freed_memory()
        with snapshot as scan:
            yield from map(record_batch, scan.runs(start))

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def record_batch(run: Run) -> pa.RecordBatch:
    """Return rows of a tree as a batch of `SCHEMA`."""
    return _Rows(run).batch()


def sums(run: Run) -> tuple[int, int, int]:
    """Return the bytes of the files of a run, their rows, and how many of them state their rows."""
    return _Rows(run).sums()


class _Rows:
    """The positions of the fields in a run of rows."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._data = run.data
        ends = np.array(run.ends, np.int64)
        ends -= ends[0]
        self._starts, self._stops = ends[:-1], ends[1:]
        self._key_stops = self._starts + np.asarray(run.lengths)
        at = self._headers()
        self._header = header = self._cut(_HEADER, at)
        edges = [at + ENTRY_HEADER.size]
        for place in range(4):
            edges.append(edges[-1] + header["lengths"][:, place])
        edges.append(edges[-1] + header["metadata"])
        self._edges = edges
        wrong = edges[-1] != self._stops
        if wrong.any():
            self._refuse(wrong)

    def batch(self) -> pa.RecordBatch:
        address, checksum, content_type, version = map(self._texts, self._edges, self._edges[1:5])
        flags, kind = self._header["flags"], SCHEMA.field("mtime").type
        return pa.record_batch(
            [
                self._texts(self._starts, self._key_stops),
                address,
                self._numbers("size", pa.int64()),
                checksum,
                content_type,
                self._numbers("mtime", kind, None if (flags & 2).all() else _bits(flags & 2)),
                self._metadata(),
                version,
                pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags & 1)]),
            ],
            schema=SCHEMA,
        )

    def sums(self) -> tuple[int, int, int]:
        numbers = (stated_rows(pairs.get(ROWS, "")) for _, pairs in self._pairs())
        stated = [number for number in numbers if number is not None]
        return int(self._header["size"].sum()), sum(stated), len(stated)

    def _headers(self) -> Any:
        """Return where the data of each entry begins, after identity and lengths."""
        key_stops, stops = self._key_stops, self._stops
        short = key_stops + (_SHORTEST + ENTRY_HEADER.size) > stops
        if short.any():
            self._refuse(short)
        before = self._cut(_BEFORE, key_stops)
        long = before["length"] >= _CONTINUED
        at = key_stops + _SHORTEST + long[:, 0] + (long[:, 0] & long[:, 1])
        bad = (before["identity"] != RECORD_ID_BYTES) | (at + ENTRY_HEADER.size > stops)
        if bad.any():
            self._refuse(bad)
        return at

    def _cut(self, kind: np.dtype[Any], starts: Any) -> Any:
        """Return the bytes from each of these positions on as values of `kind`, also unaligned."""
        width = kind.itemsize
        everywhere = np.ndarray(
            (len(self._data) - width + 1,), f"V{width}", self._data, strides=(1,)
        )
        return everywhere[starts].view(kind)  # numpy copies bytes faster than fields

    def _numbers(self, name: str, kind: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
        numbers = np.ascontiguousarray(self._header[name])
        return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(numbers)])

    def _texts(self, starts: Any, stops: Any) -> pa.Array:
        count, width = len(starts), int(stops[0] - starts[0])
        if (stops - starts == width).all():
            edges = np.arange(count + 1, dtype=np.int32) * np.int32(width)
            cut = self._cut(np.dtype(f"V{width}"), starts) if width else np.empty(0, np.uint8)
            if cut.view(np.uint8).max(initial=0) < _ASCII:  # faster than Arrow's check
                return _pieces(pa.string(), edges, pa.py_buffer(cut))
            texts = _pieces(pa.binary(), edges, pa.py_buffer(cut))
        else:
            edges = np.empty(2 * count, np.int32)
            edges[::2], edges[1::2] = starts, stops
            pieces = _pieces(pa.binary(), edges, pa.py_buffer(self._data))
            texts = pieces.take(pa.array(np.arange(0, 2 * count, 2)))
        try:
            return texts.cast(pa.string())
        except pa.ArrowInvalid:
            self._refuse(np.ones(count, bool))
            raise

    def _metadata(self) -> pa.Array:
        counts = np.zeros(len(self._starts) + 1, np.int32)
        names: list[str] = []
        values: list[str] = []
        for row, pairs in self._pairs():
            counts[row + 1] = len(pairs)
            names += pairs.keys()
            values += pairs.values()
        texts = (pa.array(column, pa.string()) for column in (names, values))
        return pa.MapArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), *texts)

    def _pairs(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows that have metadata, each with its pairs."""
        starts, stops = self._edges[4:]
        for row in np.flatnonzero(self._header["metadata"]).tolist():
            yield row, json.loads(bytes(self._data[starts[row] : stops[row]]))

    def _refuse(self, suspects: Any) -> None:
        """Raise an error for the first of these rows that cannot be decoded."""
        keys, values = self._run.columns()
        for row in np.flatnonzero(suspects).tolist():
            entry_fields(keys[row], values[row])
        raise CorruptionError(f"entries from {keys[0]!r} to {keys[-1]!r} are not entries")


def _pieces(kind: pa.DataType, edges: Any, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, len(edges) - 1, [None, pa.py_buffer(edges), data])


def _bits(flags: Any) -> pa.Buffer:
    """Return Arrow's bitmap of flags, with a bit set for each flag that is not 0."""
    return pa.py_buffer(np.packbits(flags != 0, bitorder="little"))
