"""Small files that expand to many times their size."""

import gzip

import pyarrow as pa
from pyarrow import orc, parquet


def runs_of(path, mib):
    """Write many equal numbers."""
    writer = parquet.ParquetWriter(path, pa.schema([("n", pa.int64())]), compression="zstd")
    for _ in range(8):
        writer.write_table(pa.table({"n": pa.repeat(pa.scalar(1), mib << 14)}))
    writer.close()


def one_long_text(path, mib):
    """Write one long text in a dictionary, and many references to it."""
    texts = pa.DictionaryArray.from_arrays(pa.repeat(0, 100), ["x" * mib * 10_000])
    parquet.write_table(pa.table({"n": texts}), path, compression="zstd")


def _packed(path, start, part, times):
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(start)
        for _ in range(times):
            file.write(part)


def one_line(path, mib):
    _packed(path, b"", b"a" * (1 << 16), mib << 4)


def one_row(path, mib):
    _packed(path, b"", b'"' + b"a" * 10_000 + b'\n",', mib * 100)


def many_rows(path, mib):
    _packed(path, b"n\n", b"12345\n" * 10_000, mib << 4)


def runs_of_orc(path, mib):
    table = pa.table({"size": pa.repeat(pa.scalar(1), mib << 17)})
    orc.write_table(table, path, compression="zstd")


def results(path, mib):
    path.write_bytes(b'{"results": [' + b"{}," * (mib << 19) + b"{}]}")
