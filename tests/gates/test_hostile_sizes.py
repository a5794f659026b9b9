"""Small files that expand to gigabytes are refused. `tests/real` measures the memory they take."""

import pytest

from graveler import checks
from graveler.base import bounded
from graveler.errors import GateFailedError, GravelerError
from graveler.repository.imports import inventory
from tests.gates import bombs

REFUSED = "expands to more than|it is no table|bytes of JSON"


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch):
    for name in ("_FLOOR_BYTES", "_LINE_CHARACTERS", "_ROW_CHARACTERS", "_JSON_BYTES"):
        monkeypatch.setattr(bounded, name, getattr(bounded, name) >> 10)


@pytest.mark.parametrize(
    ("name", "write", "gate"),
    [
        ("a.parquet", bombs.runs_of, checks.unique("", "n")),
        ("a.parquet", bombs.runs_of, checks.refers_to("", "n", "x/")),
        ("a.parquet", bombs.one_long_text, checks.unique("", "n")),
        ("a.csv.gz", bombs.one_line, checks.row_count("")),
        ("a.csv.gz", bombs.one_row, checks.row_count("")),
        ("a.csv.gz", bombs.many_rows, checks.not_null("", "n")),
        ("run_results.json", bombs.results, checks.dbt_results("")),
    ],
    ids=lambda value: getattr(value, "__name__", getattr(value, "name", "")),
)
def test_a_check_refuses_it(repo, tmp_path, name, write, gate):
    write(tmp_path / name, 1)
    with pytest.raises(GateFailedError, match=REFUSED), repo.run("r", gates=[gate]) as run:
        run.put(name, tmp_path / name)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.parquet", bombs.runs_of),
        ("a.parquet", bombs.one_long_text),
        ("a.csv.gz", bombs.one_line),
        ("a.csv.gz", bombs.one_row),
        ("a.orc", bombs.runs_of_orc),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_import_refuses_it(repo, tmp_path, name, write):
    write(tmp_path / name, 1)
    with pytest.raises(GravelerError, match=REFUSED):
        repo.create_branch("dev").import_(f"file://{tmp_path / name}", verify=True)


def test_a_manifest_is_read_up_to_a_bound(repo, tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "_MANIFEST_BYTES", 20)
    (tmp_path / "manifest.json").write_text('{"fileSchema": "key, size"}')
    with pytest.raises(GravelerError, match=r"is not the manifest|JSON"):
        repo.create_branch("dev").import_(f"file://{tmp_path}/manifest.json")
