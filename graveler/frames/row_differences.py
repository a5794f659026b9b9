"""The rows that differ between two versions of a table, by their keys.

Only changed files are read: rows of the others are the same on both sides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.frames.first_rows import cell_text, form_of
from graveler.frames.libraries import library_named
from graveler.model import Change, ChangeKind, Entry
from graveler.reads.partitions import value_folders

if TYPE_CHECKING:
    from graveler.frames.source import Source
    from graveler.reads.view import View

_Sides = tuple[list[Entry], list[Entry]]

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


def changed_tables(views: "Sequence[View]", changes: Iterable[Change]) -> Mapping[str, _Sides]:
    """Return the changed files of each table on both sides, by its folder or its file.

    The files of a folder and of its ``key=value`` folders are one table if one of them has the
    columns of all.
    """
    folders: dict[str, _Sides] = {}
    for change in changes:
        *above, _ = change.path.split("/")
        name = "/".join([*above[: len(above) - len(value_folders(change.path))], ""]) or "/"
        for side, entry in enumerate((change.before, change.after)):
            if entry is not None and form_of(entry):
                folders.setdefault(name, ([], []))[side].append(entry)
    tables: dict[str, _Sides] = {}
    for name, sides in folders.items():
        one = all(map(_is_one_table, views, sides))
        for side, entries in enumerate(sides):
            for entry in entries:
                tables.setdefault(name if one else entry.path, ([], []))[side].append(entry)
    return tables


def _is_one_table(view: "View", entries: Sequence[Entry]) -> bool:
    if len(entries) < 2:
        return True
    sources = (_source(view, [entry], form_of(entry)) for entry in entries)
    columns = [set(source.schema.names) for source in sources]
    return max(columns, key=len) == set().union(*columns)


def _source(view: "View", entries: Iterable[Entry], form: str) -> "Source":
    library_named("pyarrow")
    from graveler.frames.source import Source

    return Source(view, "", [(entry.path, entry) for entry in entries], form)


def differences(
    views: "Sequence[View]",
    sides: Sequence[Sequence[Entry]],
    keys: Sequence[str],
    *,
    of: str = "the table",
) -> Iterator[dict[str, Any]]:
    """Yield the kind and the key of each difference, and the row before and after, by the keys."""
    table, names = _both(views, sides)
    if missing := [name for name in keys if name not in names]:
        raise InvalidInputError(f"{of}: no column {missing[0]!r}: it has {', '.join(names)}")
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
                f"{','.join(keys)}: several rows of {of} have {', '.join(pairs)}: name more columns"
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

    from graveler.frames.union import concat_arrow

    parts, numbers = [], []
    for side, (view, entries) in enumerate(zip(views, sides, strict=True)):
        for form in dict.fromkeys(map(form_of, entries)):
            files = (entry for entry in entries if form_of(entry) == form)
            parts.append(_source(view, files, form).table(verify=True))
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
