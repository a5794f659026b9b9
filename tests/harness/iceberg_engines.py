"""Engines of ``make test-iceberg``: Spark with Iceberg's runtime and DuckDB, each in a process of its own.

Their processes know only the settings that a `RestCatalog` gives.
"""

import json
import re
import subprocess
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from graveler.config import program_environment

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-iceberg/bin/python"
JARS = ROOT / "build/jars/iceberg"
SPARK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
}


class EngineError(Exception):
    """What an engine has answered."""


class Engine:
    """An engine in a process of its own, which can use several catalogs by their names."""

    def __init__(self, shell, kind):
        self._shell = shell
        self._kind = kind
        self._names = {}
        self._numbers = count()

    def ask(self, value):
        self._shell.stdin.write(json.dumps(value) + "\n")
        self._shell.stdin.flush()

    def answer(self, value):
        self.ask(value)
        # libraries print, too
        answer = json.loads(next(line for line in self._shell.stdout if line.startswith("{")))
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer["rows"]

    def use(self, alias, catalog, **properties):
        """Let statements name a catalog by an alias, as in ``dev.db.flights``.

        An engine keeps a catalog under its name, so each use has a name of its own.

        Args:
            properties: Others for Spark's catalog; None leaves one out.
        """
        name = self._names[alias] = f"{alias}_{next(self._numbers)}"
        if self._kind == "duckdb":
            self.answer({name: catalog.duckdb(name)})
            return
        start = f"spark.sql.catalog.{name}"
        settings = catalog.spark(name, spark="4.1", jars=JARS)
        settings |= {f"{start}.{key}": value for key, value in properties.items()}
        self.answer(
            {key: settings[key] for key in settings if key.startswith(start) and settings[key]}
        )

    def sql(self, statement):
        """Run a statement, and return its rows, sorted, with nulls last."""
        for alias, name in self._names.items():
            statement = re.sub(rf"\b{alias}\.(?=db|system)", f"{name}.", statement)
        rows = map(tuple, self.answer(statement))
        return sorted(rows, key=lambda row: [(value is None, value) for value in row])


@contextmanager
def running(kind, settings):
    with subprocess.Popen(
        [PYTHON, ROOT / "tests/long/iceberg/statements.py", kind],
        env=program_environment({"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        engine = Engine(shell, kind)
        engine.ask(settings)
        yield engine
        assert shell.stdin is not None
        shell.stdin.close()
