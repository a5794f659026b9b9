"""A check of columns and types, and of the changes allowed to them."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from graveler.base.arguments import choice
from graveler.errors import InvalidInputError
from graveler.frames.footers import Files
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import Rule, built_in, nothing_below, of_files, place_of, source_of
from graveler.gates.statistics import counts, csv_header, footer_of, kind_of
from graveler.model import Entry
from graveler.reads.partitions import folder_values

_EVOLUTIONS = ("none", "add", "widen")
_WIDER: Mapping[str, frozenset[str]] = {
    "int8": frozenset({"int16", "int32", "int64"}),
    "int16": frozenset({"int32", "int64"}),
    "int32": frozenset({"int64"}),
    "uint8": frozenset({"uint16", "uint32", "uint64", "int16", "int32", "int64"}),
    "uint16": frozenset({"uint32", "uint64", "int32", "int64"}),
    "uint32": frozenset({"uint64", "int64"}),
    "float": frozenset({"double"}),
    "halffloat": frozenset({"float", "double"}),
    "date32[day]": frozenset({"timestamp[ms]", "timestamp[us]", "timestamp[ns]"}),
}
_ANY = ""
_PLAIN = (
    *("null", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("halffloat", "float", "double", "string", "large_string", "string_view", "binary"),
    *("large_binary", "binary_view", "date32[day]", "date64[ms]", "time32[s]", "time32[ms]"),
    *("time64[us]", "time64[ns]", "timestamp[us]", "duration[us]", "month_day_nano_interval"),
)
_TYPE = re.compile(
    "|".join(
        (
            *map(re.escape, ("", *_PLAIN)),
            r"(timestamp|duration)\[(s|ms|us|ns)(, tz=[^\]]+)?\]",
            r"decimal(32|64|128|256)\(\d+, -?\d+\)",
            r"fixed_size_binary\[\d+\]",
            r"(list|large_list|list_view|struct|map|dictionary|extension|run_end_encoded)<.+>",
            r"(fixed_size_list<.+>\[\d+\]|(dense|sparse)_union<.+>)",
        )
    )
)
_MEANT: Mapping[str, str] = {
    "bigint": "int64",
    "boolean": "bool",
    "bytes": "binary",
    "date": "date32[day]",
    "datetime": "timestamp[us]",
    "decimal": "decimal128(38, 9)",
    "float16": "halffloat",
    "float32": "float",
    "float64": "double",
    "int": "int64",
    "long": "int64",
    "object": "string",
    "str": "string",
    "text": "string",
    "timestamp": "timestamp[us]",
    "varchar": "string",
}
"""Names of other systems for the same types."""

_SAME = (
    (re.compile(r"\bdictionary<values=(.*?), indices=\w+(, ordered=\d)?>"), r"\1"),
    (re.compile(r"\blarge_(string|binary|list)"), r"\1"),
    (re.compile(r"\b(string|binary|list)_view"), r"\1"),
    (re.compile(r"list<\w+: "), "list<element: "),
    (re.compile(r" \('[^']*'\)>"), ">"),  # the name that a map's values have in the file
    (re.compile(r"\bdate64\[ms\]"), "date32[day]"),
)
"""Forms of types in memory that are one type in Parquet; libraries note theirs in the file."""


@built_in
def schema(
    prefix: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    evolution: str = "add",
    table: str = "",
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """Files have the expected columns and types; the columns of ``key=value`` folders count.

    Types are those of Parquet: ``large_string`` is ``string``, and a dictionary is its values.

    Cost: the footer of each Parquet file; the first line of a CSV file, which has no types.

    Args:
        columns: Types by name, as Arrow writes them (``int64``, ``string``, ``timestamp[us]``);
            "" for any type. By default those of the newest file of the target.
        evolution: ``none`` allows only the same columns; ``add`` also allows new columns;
            ``widen`` also allows wider types (int32 to int64, float to double).
    """
    stored: Any = columns or ()  # settings may hold pairs
    given = dict(map(_column, stored.items() if isinstance(stored, Mapping) else stored))
    if columns is not None and not given:
        raise InvalidInputError(
            f"columns {columns!r}: name at least one, or give None for those of the newest file"
        )
    choice(evolution, "evolution", _EVOLUTIONS)

    def check(candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        wanted = given or _target_columns(candidate, prefix)
        if wanted is None:
            candidate.report(compared_with="nothing: these are the first files")
            wanted = _fields(candidate, entries[0])
        for entry in entries:
            folders = dict(folder_values(entry.path))
            if problem := _problem(_fields(candidate, entry), folders, wanted, evolution):
                yield f"{entry.path!r} {problem}"

    def check_table(candidate: Candidate) -> str | None:
        now, old = (
            {field.name: str(field.type) for field in side.schema} if side else None
            for side in (source_of(tree, table) for tree in (candidate, candidate.before))
        )
        if now is None:
            lenient = missing == "allow" or candidate.restores
            return None if lenient else nothing_below(candidate, place, "all")
        problem = _problem(now, {}, given or old or now, evolution)
        return f"table {table!r} {problem}" if problem else None

    place = place_of(prefix, table)
    if table:
        choice(missing, "missing", ("refuse", "allow"))
        return Rule(check_table, table, place)

    # without columns, the check also reads the files of the target
    return of_files(check, prefix, scope, missing, reads="" if given else "content")


def _target_columns(candidate: Candidate, prefix: str) -> dict[str, str] | None:
    before = [
        entry for entry in candidate.before.entries(prefix) if kind_of(entry) and counts(entry)
    ]
    if not before:
        return None
    newest = max(before, key=lambda entry: (entry.mtime is not None, entry.mtime, entry.path))
    candidate.report(compared_with=newest.path)
    return _fields(candidate.before, newest)


def _problem(
    fields: Mapping[str, str], folders: Mapping[str, Any], wanted: dict[str, str], evolution: str
) -> str:
    missing = [name for name in wanted if name not in fields and name not in folders]
    new = [name for name in fields if name not in wanted]
    problems = [f"lacks {', '.join(missing)}"] if missing else []
    if new and evolution == "none":
        problems.append(f"has new columns {', '.join(new)}")
    problems += [
        f"{name} is {fields[name]}, not {kind}"
        for name, kind in wanted.items()
        if name in fields and not _allows(kind, fields[name], evolution)
    ]
    return "; ".join(problems)


def _allows(wanted: str, kind: str, evolution: str) -> bool:
    kind, wanted = _stored(kind), _stored(wanted)
    if kind == wanted or _ANY in {wanted, kind}:
        return True
    return evolution == "widen" and kind in _WIDER.get(wanted, ())


def _stored(kind: str) -> str:
    for form, same in _SAME:
        kind = form.sub(same, kind)
    return kind


def _column(pair: Any) -> tuple[str, str]:
    match pair:
        case (str(name), str(kind)) if not isinstance(pair, str):
            if not _TYPE.fullmatch(kind):
                close = _MEANT.get(kind) or next(iter(get_close_matches(kind, _PLAIN)), "")
                hint = f"did you mean {close!r}? " if close else ""
                raise InvalidInputError(
                    f"column {name!r}: there is no type {kind!r}: {hint}give it as "
                    "Arrow writes it (int64, double, string, timestamp[us]), '' for any"
                )
            return name, kind
        case _:
            raise InvalidInputError(
                f"column {pair!r}: give types by name, as {{'id': 'int64'}}; '' for any type"
            )


def _fields(files: Files, entry: Entry) -> dict[str, str]:
    footer = footer_of(files, entry)
    if footer is not None:
        pairs = list(footer.schema)
    elif kind_of(entry) == "csv":
        pairs = [(name, _ANY) for name in csv_header(files, entry)]
    else:
        raise InvalidInputError(
            f"{entry.path!r} is neither Parquet nor CSV by its name: give a narrower prefix"
        )
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidInputError(
            f"{entry.path!r} has {names.count(twice)} columns {twice!r}: rename one"
        )
    return dict(pairs)
