"""Small files that expand to gigabytes do not fill the memory of the publisher."""

import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

import graveler

ROWS = 30_000_000
MOST_KIB = 160 << 10
"""Allowed growth of the process; each file expands to more than 200 MiB."""

_PEAK = """
import pathlib, resource, sys
import graveler, pyarrow.parquet, pyarrow.orc, pyarrow.csv, pyarrow.compute
from graveler import checks
from graveler.errors import GravelerError
lake = graveler.open(sys.argv[1])
repo = lake.repository("flights")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    said = ""
    exec(sys.argv[2])
except GravelerError as error:
    said = error
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(said)
"""
_PUBLISH = """
with repo.run('r', gates=[checks.{}]) as run:
    run.put({!r}, pathlib.Path({!r}))
"""
_IMPORT = "said = repo.branch('dev').import_({!r}, verify=True)"


def runs_of(path):
    """Write many equal numbers."""
    writer = parquet.ParquetWriter(path, pa.schema([("n", pa.int64())]), compression="zstd")
    for _ in range(30):
        writer.write_table(pa.table({"n": pa.repeat(pa.scalar(1), ROWS // 30)}))
    writer.close()


def one_long_text(path):
    """Write one long text in a dictionary, and many references to it."""
    texts = pa.DictionaryArray.from_arrays(pa.repeat(0, 20_000), ["x" * 100_000])
    parquet.write_table(pa.table({"n": texts}), path, compression="zstd")


def one_line(path):
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(400):
            file.write(b"a" * (1 << 20))


def one_row(path):
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(400):
            file.write((b'"' + b"a" * 100_000 + b'\n",') * 10)


def many_rows(path):
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"n\n")
        for _ in range(220):
            file.write(b"12345\n" * 170_000)


def runs_of_orc(path):
    orc.write_table(pa.table({"size": pa.repeat(pa.scalar(1), ROWS)}), path, compression="zstd")


def manifest(path):
    path.write_bytes(json.dumps({"fileSchema": " " * (200 << 20)}).encode())


CASES = {
    "runs.parquet": (runs_of, ("unique('', 'n')", "refers_to('', 'n', 'x/')", "not_null('', 'n')")),
    "text.parquet": (one_long_text, ("unique('', 'n')", "in_range('', 'n', 'a')")),
    "line.csv.gz": (one_line, ("row_count('')", "unique('', 'n')", "file_format('')")),
    "row.csv.gz": (one_row, ("row_count('')", "unique('', 'n')")),
    "many.csv.gz": (many_rows, ("row_count('')", "unique('', 'n')", "not_null('', 'n')")),
}
INVENTORIES = {
    "runs.parquet": runs_of,
    "text.parquet": one_long_text,
    "line.csv.gz": one_line,
    "row.csv.gz": one_row,
    "runs.orc": runs_of_orc,
    "manifest.json": manifest,
}


def growth(lake, expression):
    """Return the growth of the memory of a process that evaluates an expression, and its answer."""
    said = subprocess.run(
        [sys.executable, "-c", _PEAK, str(lake), expression],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, _, answer = said.stdout.partition("\n")
    return int(peak), answer


@pytest.mark.parametrize(
    ("name", "check"), [(name, check) for name, (_, checks) in CASES.items() for check in checks]
)
def test_a_check_stays_within_its_bounds(tmp_path, name, check):
    file = tmp_path / name
    CASES[name][0](file)
    assert file.stat().st_size < 1 << 20
    with graveler.open(tmp_path / "lake", create=True) as lake:
        lake.create_repository("flights")
    peak, answer = growth(tmp_path / "lake", _PUBLISH.format(check, name, str(file)))
    assert peak < MOST_KIB, answer


@pytest.mark.parametrize("name", INVENTORIES)
def test_an_import_stays_within_its_bounds(tmp_path, name):
    INVENTORIES[name](tmp_path / name)
    with graveler.open(tmp_path / "lake", create=True) as lake:
        lake.create_repository("flights").create_branch("dev")
    peak, answer = growth(tmp_path / "lake", _IMPORT.format(f"file://{tmp_path / name}"))
    assert peak < MOST_KIB, answer
    assert "Imported" not in answer


def test_results_of_dbt_stay_within_their_bounds(tmp_path):
    file = tmp_path / "run_results.json"
    file.write_bytes(b'{"results": [' + b"{}," * (12 << 20) + b"{}]}")
    with graveler.open(tmp_path / "lake", create=True) as lake:
        lake.create_repository("flights")
    publish = _PUBLISH.format("dbt_results('')", file.name, str(file))
    peak, answer = growth(tmp_path / "lake", publish)
    assert peak < MOST_KIB, answer
    assert "has 37748753 bytes of JSON, more than 33554432" in answer
