"""Small files that expand to gigabytes do not fill the memory of the publisher."""

import subprocess
import sys

import pytest

import graveler
from tests.gates import bombs

EXPANDED_MIB = 250
MOST_KIB = 160 << 10
"""Allowed growth of the process."""

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
with repo.run('r', gates=[checks.{check}]) as run:
    run.put({name!r}, pathlib.Path({path!r}))
"""
_IMPORT = "repo.create_branch('dev').import_('file://{path}', verify=True)"


@pytest.mark.parametrize(
    ("name", "write", "work"),
    [
        ("a.parquet", bombs.runs_of, "unique('', 'n')"),
        ("a.parquet", bombs.one_long_text, "unique('', 'n')"),
        ("a.csv.gz", bombs.one_line, "file_format('')"),
        ("a.csv.gz", bombs.one_row, "row_count('')"),
        ("a.csv.gz", bombs.many_rows, "unique('', 'n')"),
        ("run_results.json", bombs.results, "dbt_results('')"),
        ("a.parquet", bombs.one_long_text, ""),
        ("a.csv.gz", bombs.one_line, ""),
        ("a.orc", bombs.runs_of_orc, ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_memory_stays_within_its_bounds(tmp_path, name, write, work):
    """A check stays within its bounds, and so does an import, which has no check."""
    file = tmp_path / name
    write(file, 40 if work.startswith("dbt") else EXPANDED_MIB)
    with graveler.open(tmp_path / "lake", create=True) as lake:
        lake.create_repository("flights")
    expression = (_PUBLISH if work else _IMPORT).format(check=work, name=name, path=str(file))
    said = subprocess.run(
        [sys.executable, "-c", _PEAK, str(tmp_path / "lake"), expression],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, _, answer = said.stdout.partition("\n")
    assert int(peak) < MOST_KIB, answer
    assert answer.strip()
