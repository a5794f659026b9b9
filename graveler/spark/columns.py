"""The columns of each kind of the data source, and batches of them.

Spark accepts only batches whose schema equals that of the source, including the nullable flags.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from graveler.committed.flat import Run
from graveler.model import Entry
from graveler.reads.table import SCHEMA, record_batch

_TIME = pa.timestamp("us", tz="UTC")
_PAIRS = SCHEMA.field("metadata").type
_ENTRY = pa.struct([field for field in SCHEMA if field.name != "path"])


def _present(*columns: tuple[str, pa.DataType]) -> list[pa.Field]:
    """Return columns without nulls."""
    return [pa.field(name, kind, nullable=False) for name, kind in columns]


_DIFF = [
    *_present(("path", pa.string()), ("kind", pa.string())),
    pa.field("before", _ENTRY),
    pa.field("after", _ENTRY),
]

COLUMNS: Mapping[str, pa.Schema] = {
    "entries": SCHEMA.append(pa.field("range_id", pa.string(), nullable=False)),
    "ranges": pa.schema(
        _present(
            ("id", pa.string()),
            ("min_path", pa.string()),
            ("max_path", pa.string()),
            ("entries", pa.int64()),
            ("size", pa.int64()),
        )
    ),
    "diff": pa.schema(_DIFF),
    "changes": pa.schema(
        [
            *_DIFF,
            *_present(("commit_id", pa.string()), ("committed", _TIME), ("sequence", pa.int64())),
        ]
    ),
    "commits": pa.schema(
        _present(
            ("id", pa.string()),
            ("parents", pa.list_(pa.field("element", pa.string()))),
            ("generation", pa.int64()),
            ("message", pa.string()),
            ("committer", pa.string()),
            ("created", _TIME),
            ("metadata", _PAIRS),
            ("tree", pa.string()),
        )
    ),
    "refs": pa.schema(
        _present(("name", pa.string()), ("kind", pa.string()), ("commit_id", pa.string()))
    ),
    "runs": pa.schema(
        _present(
            ("key", pa.string()),
            ("state", pa.string()),
            ("attempt", pa.int64()),
            ("branch", pa.string()),
            ("into", pa.string()),
            ("base", pa.string()),
            ("head", pa.string()),
            ("reason", pa.string()),
            ("metadata", _PAIRS),
            ("created", _TIME),
            ("opened", _TIME),
            ("updated", _TIME),
            ("lease_until", _TIME),
        )
    ),
    "conflicts": pa.schema(
        [
            *_present(("path", pa.string())),
            *(pa.field(side, _ENTRY) for side in ("base", "source", "dest")),
            *_present(("bases_disagree", pa.bool_())),
        ]
    ),
}
"""Columns by kind."""


def entry_batch(run: Run, range_id: str) -> pa.RecordBatch:
    """Return rows of a range as entries."""
    batch = record_batch(run)
    ids = pa.repeat(range_id, batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, ids], schema=COLUMNS["entries"])


def entry_structs(
    keys: Sequence[bytes], values: Sequence[bytes | None], others: Sequence[bytes | None]
) -> pa.StructArray:
    """Return entries as one column, with null for a missing entry.

    Args:
        values: The value record of each row, or None.
        others: Value records that fill the masked fields of missing entries, or None.
    """
    filled = zip(values, others, strict=True)
    rows = [(key, one or other or b"") for key, (one, other) in zip(keys, filled, strict=True)]
    mask = pa.array([value is None for value in values], pa.bool_())
    columns = record_batch(Run.of(rows)).columns[1:]
    return pa.StructArray.from_arrays(columns, fields=list(_ENTRY), mask=mask)


def listed_batch(kind: str, rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return rows of Python values."""
    return pa.RecordBatch.from_pylist(list(rows), schema=COLUMNS[kind])


def entry_row(entry: Entry | None) -> Mapping[str, Any] | None:
    """Return an entry as a value of a column of entries."""
    if entry is None:
        return None
    return {**asdict(entry), "metadata": list(entry.metadata.items())}
