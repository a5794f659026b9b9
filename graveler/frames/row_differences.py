"""The rows that differ between two versions of a table, by their keys.

Only changed files are read: rows of the others are the same on both sides.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.frames.first_rows import cell_text, form_of
from graveler.frames.libraries import library_named
from graveler.model import ChangeKind, Entry

if TYPE_CHECKING:
    from graveler.reads.view import View

_BATCH = 1_000
_TWICE = "SELECT {keys} FROM both_sides GROUP BY side, {keys} HAVING count(*) > 1 LIMIT 1"
_DIFFERENCE = """
WITH l AS (SELECT * FROM both_sides WHERE side = 0), r AS (SELECT * FROM both_sides WHERE side = 1)
SELECT CASE WHEN l.side IS NULL THEN 'added' WHEN r.side IS NULL THEN 'removed' ELSE 'changed' END,
    l.* EXCLUDE (side), r.* EXCLUDE (side)
FROM l FULL JOIN r ON {same_key}
WHERE l.side IS NULL OR r.side IS NULL OR {differs}
ORDER BY {order}
"""


def differences(
    views: "Sequence[View]", sides: Sequence[Sequence[Entry]], keys: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the kind and the key of each difference, and the row before and after, by the keys."""
    table, names = _both(views, sides)
    if missing := [name for name in keys if name not in names]:
        raise InvalidInputError(f"no column {missing[0]!r}: the table has {', '.join(names)}")
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError(
            "a comparison by rows needs DuckDB: pip install duckdb"
        ) from error
    places = [f"c{names.index(name)}" for name in keys]
    with duckdb.connect() as database:
        database.register("both_sides", table)
        if twice := database.execute(_TWICE.format(keys=", ".join(places))).fetchone():
            pairs = (f"{name}={cell_text(value)}" for name, value in zip(keys, twice, strict=True))
            raise InvalidInputError(
                f"{','.join(keys)}: several rows have {', '.join(pairs)}: name more columns"
            )
        query = _DIFFERENCE.format(
            same_key=" AND ".join(f"l.{at} IS NOT DISTINCT FROM r.{at}" for at in places),
            differs=" OR ".join(f"l.c{at} IS DISTINCT FROM r.c{at}" for at in range(len(names))),
            order=", ".join(f"coalesce(l.{at}, r.{at})" for at in places),
        )
        found = database.execute(query)
        while batch := found.fetchmany(_BATCH):
            for kind, *values in batch:
                before = dict(zip(names, values, strict=False)) if kind != "added" else None
                after = dict(zip(names, values[len(names) :], strict=True))
                key = {name: (before or after)[name] for name in keys}
                yield {
                    "kind": ChangeKind(kind),
                    "key": key,
                    "before": before,
                    "after": after if kind != "removed" else None,
                }


def _both(views: "Sequence[View]", sides: Sequence[Sequence[Entry]]) -> tuple[Any, list[str]]:
    """Return the rows of both sides as one table, with the columns c0, c1, … and their side."""
    library_named("pyarrow")
    import pyarrow as pa

    from graveler.frames.source import Source
    from graveler.frames.union import concat_arrow

    parts, numbers = [], []
    for side, (view, entries) in enumerate(zip(views, sides, strict=True)):
        for form in dict.fromkeys(map(form_of, entries)):
            files = [(entry.path, entry) for entry in entries if form_of(entry) == form]
            parts.append(Source(view, "", files, form).table(verify=True))
            numbers.append(pa.repeat(side, len(parts[-1])))
    try:
        table = concat_arrow(parts)
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"the changed files are of several tables: name one, as in `diff main dev output/` ({error})"
        ) from error
    names = table.column_names
    table = table.rename_columns([f"c{number}" for number in range(len(names))])
    return table.append_column("side", pa.chunked_array(numbers)), names
