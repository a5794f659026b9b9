"""Parquet and CSV files for gates to judge, and what gates say of them."""

import gzip
import io
import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from graveler.errors import GateFailedError


def parquet(columns, schema=None, **options):
    """Return the bytes of a Parquet file with these columns."""
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), sink, **options)
    return sink.getvalue()


def rows(number, **columns):
    return parquet({"id": list(range(number)), **columns})


class File(NamedTuple):
    """A file of a test: the end of its path, its bytes, and its folder."""

    end: str
    data: bytes
    folder: str = "o"


def table(columns, **options):
    return File(".parquet", parquet(columns, **options))


def column(values, kind=None, **options):
    """Return a Parquet file with the column `z`."""
    return table({"z": pa.array(values, kind)}, **options)


def csv(*values):
    """Return a CSV file with the column `z` and another."""
    return File(".csv", "\n".join(("z,other", *(f"{value},1" for value in values))).encode())


def packed(file):
    return File(f"{file.end}.gz", gzip.compress(file.data))


def there(file):
    """Return the file in the folder to which others refer."""
    return file._replace(folder="d")


def paths(files):
    return {f"{file.folder}/{number}{file.end}": file.data for number, file in enumerate(files)}


def dbt(*results, metadata=None):
    """Return the file in which dbt records results, given as id, status and message."""
    found = [dict(zip(("unique_id", "status", "message"), row, strict=False)) for row in results]
    written = {"metadata": metadata or {}, "results": found}
    return File("/run_results.json", json.dumps(written).encode())


MODEL = ("model.flights.departures", "success", "OK")
TEST = ("test.flights.unique_departures_flight.f2c2", "pass", None)
FAILED = ("test.flights.not_null_departures_flight.f2c2", "fail", "Got 1 result,\n  not 0")


def judged(repo, gate, *files):
    """Return the verdict of a gate on a run that writes these files."""
    run = repo.runs.open("hour")
    for path, data in (paths(files) or {"elsewhere": b"1"}).items():
        run.put(path, data)
    run.commit_staged()
    return run.judge([gate])[0]


def said(repo, gate, files, *, on_main=None, delete=(), metadata=None):
    """Publish a run that writes these files; return the reason of its gate, or "" if it passes."""
    if on_main:
        with repo.run("before") as before:
            for path, data in on_main.items():
                before.put(path, data)
    try:
        with repo.run("hour 05", gates=[gate], metadata=metadata, on_failure="drop") as run:
            for path, data in files.items():
                run.put(path, data)
            run.delete_many(delete)
            if not files:
                run.put("elsewhere", b"1")
    except GateFailedError as error:
        return error.verdicts[0].reason
    return ""
