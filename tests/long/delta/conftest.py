"""The environment of ``make test-delta``: PySpark 4.1 with the jars of Delta Lake."""

import json
import subprocess
from pathlib import Path

import pytest

import graveler
from graveler.config import program_environment
from graveler.server import Server, spark_settings

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-delta/bin/python"
JARS = ROOT / "build/jars/delta"
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # tables are small, so the default of 50 tasks per read of a log would take most of the time
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


@pytest.fixture(scope="session")
def program():
    """Run a program in that environment, and return its output."""

    def run(name, *arguments):
        return subprocess.run(
            [PYTHON, Path(__file__).with_name(name), *arguments],
            env=program_environment({}),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=300,
        ).stdout

    return run


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    with graveler.init(tmp_path_factory.mktemp("delta") / "lake") as lake:
        yield lake


@pytest.fixture(scope="module")
def gateway(lake):
    with Server(lake) as opened:
        yield opened


@pytest.fixture(scope="module")
def sql(gateway):
    """Run a statement, and return its rows; ``{orders}`` stands for the table at a ref.

    With `to`, save the rows to that folder instead, in place of the rows that `where` selects.
    """
    jars = ",".join(map(str, JARS.glob("*.jar")))
    settings = {
        **SETTINGS,
        **spark_settings(gateway.address, gateway.token),
        "spark.jars": jars,
    }
    with subprocess.Popen(
        [PYTHON, Path(__file__).with_name("statements.py")],
        env=program_environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        asks, answers = shell.stdin, shell.stdout
        assert asks is not None
        assert answers is not None

        def ask(value):
            asks.write(json.dumps(value) + "\n")
            asks.flush()

        def run(statement, ref="main", *, to=None, where=""):
            statement = statement.format(orders=f"delta.`{gateway.address}tables/{ref}/orders`")
            ask([statement, f"{gateway.address}{to}", where] if to else statement)
            # Delta prints the files that a vacuum has deleted
            answer = json.loads(next(line for line in answers if line.startswith("{")))
            assert "error" not in answer, answer["error"]
            return sorted(map(tuple, answer["rows"]))

        ask(settings)
        yield run
        asks.close()
