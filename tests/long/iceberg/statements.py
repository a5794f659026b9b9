"""Runs SQL on an engine of ``.venv-iceberg``: ``statements.py spark`` or ``statements.py duckdb``.

Each line of stdin is JSON. The first has the settings of the session: a mapping for Spark, statements for
DuckDB. Each further one is a statement, or a mapping: of settings that are set for Spark, of statements that
attach a catalog for DuckDB. Each has one line of JSON as its answer.
"""

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Run = Callable[[Any], list[list[Any]]]


def spark(settings: dict[str, str]) -> Run:
    """Return what runs a statement on a new Spark session."""
    from graveler import spark as gs

    session = gs.session(master="local[2]", config=settings)

    def run(asked: Any) -> list[list[Any]]:
        if isinstance(asked, dict):
            for name, value in asked.items():
                session.conf.set(name, value)
            return []
        return [list(row) for row in session.sql(asked).collect()]

    return run


def duckdb(settings: dict[str, str]) -> Run:
    """Return what runs a statement on a new connection of DuckDB with the packaged extensions."""
    import duckdb as library

    # no extension is fetched: the environment has them
    connection = library.connect(config={"autoinstall_known_extensions": "false", **settings})
    for name in ("avro", "httpfs", "iceberg"):
        spec = find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"load '{file}'")

    def run(asked: Any) -> list[list[Any]]:
        if isinstance(asked, dict):
            for statements in asked.values():
                connection.execute(statements)
            return []
        return [list(row) for row in connection.execute(asked).fetchall()]

    return run


def main(engine: str) -> None:
    run = {"spark": spark, "duckdb": duckdb}[engine](json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"rows": run(json.loads(line))}
        except Exception as error:  # noqa: BLE001 - the test judges it
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        sys.stdout.write(json.dumps(answer, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
