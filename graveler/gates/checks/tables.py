"""Checks of whole tables: a query in SQL that finds nothing, and a schema of Pandera."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graveler.base.arguments import choice
from graveler.base.names import check_prefix
from graveler.errors import InvalidInputError, MissingDependencyError, ObjectNotFoundError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import Rule, built_in, nothing_below
from graveler.gates.gate import Gate

_SHOWN = 5
_NEW, _BEFORE = "new:", "before:"


@built_in
def sql(query: str, *, missing: str = "refuse", **options: Any) -> Rule:
    """A query returns no rows: each row that it returns is a violation.

    ::

        checks.sql("select * from 'output/flights/' where delay < -120")
        checks.sql("select carrier from 'new:output/flights/' "
                   "where carrier not in (select carrier from 'carriers.csv')")

    A table is a path in quotes, a folder or a file, as the branch would have it. ``'new:PATH'`` has the
    rows of added and replaced files only, and ``'before:PATH'`` the table as the branch has it now.
    DuckDB runs the query. It reaches nothing but these tables.

    Cost: the tables are read completely.

    Args:
        query: One ``select``.
        missing: ``refuse`` or ``allow``: what to do if a table has no files.
    """
    choice(missing, "missing", ("refuse", "allow"))
    names = sorted(tables_of(query))
    if not names:
        raise InvalidInputError(f"query {query!r}: it reads no table: name one, as 'output/'")
    paths = dict.fromkeys(name.removeprefix(_NEW).removeprefix(_BEFORE) for name in names)
    for path in paths:
        check_prefix("query", path)

    def check(candidate: Candidate) -> str | None:
        with locked_duckdb() as connection:
            from graveler.frames.drivers.duckdb import check_names

            for name in names:
                try:
                    rows = _rows(candidate, name)
                    check_names(name, rows.column_names)
                    connection.register(name, rows)
                except ObjectNotFoundError:
                    path = name.removeprefix(_NEW).removeprefix(_BEFORE)
                    if missing == "allow" or candidate.restores:
                        return None
                    return nothing_below(candidate, path, "changes" if path != name else "all")
            found = connection.execute(query)
            columns = [column[0] for column in found.description]
            wrong = [dict(zip(columns, row, strict=True)) for row in found.fetchmany(_SHOWN)]
            more = sum(map(len, iter(lambda: found.fetchmany(10_000), [])))
        if not wrong:
            return None
        candidate.report(rows=wrong, count=len(wrong) + more)
        return _listed(map(_row, wrong), more)

    changes = all(name.startswith(_NEW) for name in names)
    first, *also = paths
    return Rule(check, _shortened(query), first, tuple(also), "changes" if changes else "content")


def pandera(prefix: str, schema: Any, *, scope: str = "changes", **options: Any) -> Gate:
    """The table fits a schema of Pandera, which reads it as a frame of pandas.

    Args:
        prefix: The folder of the table.
        schema: A ``DataFrameSchema``, or a class of ``DataFrameModel``.
        scope: ``changes`` for the rows of added and replaced files, ``all`` for the whole table.
        options: The fields of the gate: ``name``, ``severity``, …
    """
    choice(scope, "scope", ("changes", "all"))
    check_prefix("pandera", prefix)
    validate = getattr(schema, "validate", None)
    if validate is None:
        raise InvalidInputError(f"schema {schema!r}: give a schema of Pandera")
    reads = "changes" if scope == "changes" else "content"
    return Gate(
        **{"prefix": prefix, "reads": reads, "name": f"pandera {prefix}", **options},
        check=_Schema(prefix, schema, scope),
    )


class _Schema:
    """The check of a schema."""

    def __init__(self, prefix: str, schema: Any, scope: str) -> None:
        self._prefix, self._schema, self._scope = prefix, schema, scope

    def __call__(self, candidate: Candidate) -> str | None:
        from pandera.errors import SchemaErrors

        name = _NEW * (self._scope == "changes") + self._prefix
        try:
            frame = _rows(candidate, name).to_pandas()
        except ObjectNotFoundError:
            return nothing_below(candidate, self._prefix, self._scope)
        try:
            self._schema.validate(frame, lazy=True)
        except SchemaErrors as error:
            wrong = error.failure_cases
            candidate.report(count=len(wrong))
            shown = wrong.head(_SHOWN).to_dict("records")
            return _listed(map(_failure, shown), len(wrong) - len(shown))
        return None


def _rows(candidate: Candidate, name: str) -> Any:
    if name.startswith(_NEW):
        return candidate.new_rows(name.removeprefix(_NEW), "pyarrow")
    if name.startswith(_BEFORE):
        return candidate.before.read(name.removeprefix(_BEFORE), "pyarrow")
    return candidate.read(name, "pyarrow")


def locked_duckdb(**settings: Any) -> Any:
    """Return a connection to an empty database whose queries reach no file and no network."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "checks.sql needs DuckDB: `pip install 'graveler[duckdb]'`"
        ) from None
    connection = duckdb.connect(config=settings)
    # afterwards, because the settings are not applied in their order
    for setting in ("enable_progress_bar = false", "enable_external_access = false"):
        connection.execute(f"SET {setting}")
    connection.execute("SET lock_configuration = true")
    return connection


def tables_of(query: str) -> set[str]:
    """Return the names of the tables of a query; refuse what is not one ``select``."""
    with locked_duckdb() as connection:
        (raw,) = connection.execute("select json_serialize_sql(?::varchar)", [query]).fetchone()
    parsed = json.loads(raw)
    if parsed["error"] or len(parsed["statements"]) != 1:
        reason = parsed.get("error_message", "give one select")
        raise InvalidInputError(f"query {query!r}: {reason}")
    own = {
        entry["key"] for node in _nodes(parsed) for entry in node.get("cte_map", {}).get("map", ())
    }
    named = {node["table_name"] for node in _nodes(parsed) if node.get("type") == "BASE_TABLE"}
    return named - own


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, (dict, list)):
            yield from _nodes(item)


def _failure(case: Mapping[str, Any]) -> str:
    return f"row {case['index']}: {case['column']} {case['failure_case']!r} fails {case['check']}"


def _listed(rows: Iterable[str], more: int) -> str:
    return "; ".join(rows) + (f"; and {more:,} more" if more else "")


def _row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())


def _shortened(query: str) -> str:
    words = " ".join(query.split())
    return words if len(words) <= 60 else f"{words[:59]}…"
