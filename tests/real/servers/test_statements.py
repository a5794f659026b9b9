"""A PostgreSQL server receives exactly the counted statements, and as many as SQLite."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from tests.harness.statements import OPERATIONS, statements_of


@pytest.mark.parametrize("name", OPERATIONS)
def test_postgresql_gets_the_statements_that_are_counted(
    name: str, postgres_url: str, tmp_path: Path
) -> None:
    sent: list[str] = []
    counts: list[int] = []

    def executed(*given: object) -> None:
        sent.append(str(given[2]))

    event.listen(Engine, "before_cursor_execute", executed)
    try:
        found = statements_of(
            tmp_path / "lake",
            [name],
            begin=sent.clear,
            end=lambda: counts.append(len(sent)),
            kv_uri=postgres_url,
        )[name]
    finally:
        event.remove(Engine, "before_cursor_execute", executed)
    assert counts[-1] == len(found), f"{name}:\n{found}"
    assert len(found) == len(statements_of(tmp_path / "sqlite", [name])[name]), f"{name}:\n{found}"
