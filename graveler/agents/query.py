"""One SELECT over the tables of a commit, in a process of its own with bounds for time and memory."""

import json
from dataclasses import dataclass
from typing import Any

from graveler.agents.answers import Room
from graveler.errors import InvalidInputError
from graveler.frames.first_rows import plain_value
from graveler.frames.reader import source_of
from graveler.gates import Candidate, Gate
from graveler.gates.checks.tables import locked_duckdb, tables_of
from graveler.gates.isolation.process import ask_in_process
from graveler.model import Commit
from graveler.reads.stores import Stores

_SECONDS = 20
_MEMORY = 1 << 30
# without a folder for temporary files, which a large sort writes
_SETTINGS = {"memory_limit": "512MB", "temp_directory": "", "threads": "2"}
_COLUMN_CHARACTERS = 1_500
_ROW_CHARACTERS = 3_000  # at most six times as many in JSON
_MOST_CHARACTERS = 24_000
# what a gate may report: lists of 64 items, and texts of 500 characters, each as eleven of 1,000 values
_PIECE, _PIECES = 500, 64


def run_query(
    stores: Stores, commit: Commit, sql: str, limit: int, *, seconds: float = _SECONDS
) -> dict[str, Any]:
    """Return the columns and the first rows of a query.

    Raises:
        InvalidInputError: It is no SELECT, fails, or needs too much time or memory.
    """
    # what reads a candidate apart reads any commit: the tables come from this process
    gate = Gate("query", _Query(sql, limit), timeout=seconds, memory=_MEMORY)
    candidate = Candidate(stores, commit, target=commit, into="", action="query")
    answer = ask_in_process(gate, candidate)
    if not answer.passed:
        raise InvalidInputError(f"the query failed: {answer.reason}")
    found: dict[str, Any] = json.loads("".join(map("".join, answer.facts["pieces"])))
    return found


@dataclass(frozen=True, slots=True)
class _Query:
    """What runs in the process of a query; it reports the answer as pieces of JSON."""

    sql: str
    limit: int

    def __call__(self, candidate: Candidate) -> None:
        """Run the query."""
        with locked_duckdb(**_SETTINGS) as database:
            from graveler.frames.drivers.duckdb import check_names

            for name in sorted(tables_of(self.sql)):
                rows = source_of(candidate, name).dataset()
                check_names(name, rows.schema.names)
                database.register(name, rows)
            text = _json(self._found(database.execute(self.sql)))
        pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        candidate.report(
            pieces=[pieces[at : at + _PIECES] for at in range(0, len(pieces), _PIECES)]
        )

    def _found(self, cursor: Any) -> dict[str, Any]:
        columns = Room(_COLUMN_CHARACTERS).fit(
            [[name, str(kind)] for name, kind, *_ in cursor.description]
        )
        rows: list[Any] = []
        left = _MOST_CHARACTERS
        for found in iter(cursor.fetchone, None):
            row = Room(_ROW_CHARACTERS).fit(plain_value(found))
            left -= len(_json(row))
            if len(rows) == self.limit or left < 0:
                return {"columns": columns, "rows": rows, "more": True}
            rows.append(row)
        return {"columns": columns, "rows": rows, "more": False}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
