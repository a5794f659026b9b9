"""Parquet and CSV files for gates to judge."""

import io

import pyarrow as pa
import pyarrow.parquet as pq


def parquet(columns, schema=None, **options):
    """Return the bytes of a Parquet file with these columns."""
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), sink, **options)
    return sink.getvalue()


def rows(number, **columns):
    return parquet({"id": list(range(number)), **columns})
