"""The schemas of a table's files, as their entries keep them, and their merge. Nothing here needs Spark.

Spark's writer stores the columns and the partition columns of a file with its entry, as Spark's JSON.
Types go together if Spark reads both as one: structs are merged by field, numbers are widened. Parquet
files of other programs have their types in the footer.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import Any

from graveler.model import Entry
from graveler.objects.verified import RangedFile
from graveler.reads.files import read_range
from graveler.reads.partitions import value_folders
from graveler.reads.stores import FilePlaces
from graveler.values import decode_entry

SCHEMA = "graveler.schema"
"""Name in an entry's metadata: the columns of the file, as Spark's JSON."""
ROWS = "graveler.rows"
"""Name in an entry's metadata: the number of rows of the file."""
_ROWS_DIGITS = 16
"""More rows do not exist, and sums of them fit into 64 bits."""
OVERWRITES = "graveler.overwrites"
"""Name in an entry's metadata: the write replaces the whole table, or the folder of the file alone."""
WHOLE = "table"
PARTITIONS = "graveler.partitions"
"""Name in an entry's metadata: the partition columns of the write, as Spark's JSON."""

_NULLS = ("nullable", "containsNull", "valueContainsNull")
_INSIDE = {"struct": (), "array": ("elementType",), "map": ("keyType", "valueType")}
_DECIMAL = re.compile(r"decimal\(([0-9]+),(-?[0-9]+)\)")
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Digits of the whole numbers, from the smallest type: a file has no type below that of 10 digits."""
_TEXT = ("string", "binary", "")
_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_WHOLE = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)|nan", re.IGNORECASE
)
"""A number in a path."""
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_IN_DOUBLE = {"byte", "short", "integer", "float", "double"}
_TOO_MANY = 39
MARK = b"graveler."
"""Bytes of every entry that keeps columns or partition columns."""
_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""Name in the metadata of a Parquet file: the columns, as Spark wrote them."""
_ARROW = dict(
    pair.split(":")
    for pair in [
        "bool:boolean",
        "int8:byte",
        "int16:short",
        "int32:integer",
        "int64:long",
        "uint8:short",
        "uint16:integer",
        "uint32:long",
        "float:float",
        "double:double",
        "string:string",
        "large_string:string",
        "string_view:string",
        "date32[day]:date",
    ]
)
"""Spark's types of Arrow's. Spark reads a file's times and bytes as other types, too."""

Field = dict[str, Any]
"""A column or field, as Spark's JSON."""
Faults = list[tuple[str, Any, Any]]
"""Columns or fields by name, each with two types that do not go together."""
Kept = tuple[str, str]
"""The columns and the partition columns that an entry keeps, as text."""


def stated_rows(text: str) -> int | None:
    """Return the number of rows that metadata states; None if it is no number, or no possible one."""
    return int(text) if text.isdecimal() and len(text) < _ROWS_DIGITS else None


def encoded(fields: Iterable[object]) -> str:
    """Return columns in the form in which entries keep them."""
    whole = {"type": "struct", "fields": list(fields)}
    return json.dumps(whole, separators=(",", ":"), sort_keys=True)


@lru_cache(1 << 10)
def fields_of(text: str) -> tuple[Field, ...]:
    """Return the columns of a stored schema; all values may be null, as in every file that is read."""
    return tuple(json.loads(text, object_hook=_nullable)["fields"]) if text else ()


def _nullable(value: dict[str, Any]) -> dict[str, Any]:
    return value | {name: True for name in _NULLS if name in value}


def kept_of(entry: Entry) -> Kept:
    """Return the schema and the partition columns that an entry keeps, or "" for each."""
    return entry.metadata.get(SCHEMA, ""), entry.metadata.get(PARTITIONS, "")


def text_partitions(files: Sequence[tuple[str, Entry]]) -> frozenset[str]:
    """Return the partition columns that were text in the write of some files."""
    kept = {entry.metadata.get(PARTITIONS, "") for _, entry in files}
    fields = [field for text in kept if text for field in json.loads(text)["fields"]]
    return frozenset(field["name"] for field in fields if field["type"] == "string")


def date_of(value: str) -> date:
    """Return the date that Spark's cast of a text gives."""
    parts = _DATE.fullmatch(value)
    if parts is None:
        raise ValueError(f"{value!r} is not a date")
    return date(*map(int, parts.groups()))


def fits(value: str | None, kind: str) -> bool:
    """Return whether Spark reads a value in a path as one of a type; every value fits text."""
    if value is None or kind in _TEXT:
        return True
    decimal = _DECIMAL.fullmatch(kind)
    try:
        if kind in _BITS:
            bound = 1 << _BITS[kind]
            return _WHOLE.fullmatch(value) is not None and -bound <= int(value) < bound
        if decimal:
            digits, scale = map(int, decimal.groups())
            exact = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=Context(digits))
            return NUMBER.fullmatch(value) is not None and exact == Decimal(value)
        _READERS[kind](value)
    except (KeyError, ValueError, InvalidOperation):
        return False
    return True


def value_of(value: str | None, kind: str) -> object:
    """Return a value in a path by its type, so that all its spellings are equal."""
    if value is None or kind in _TEXT or not fits(value, kind):
        return value
    found = _READERS.get(kind, number_of)(value)
    return found if found == found else "nan"


def number_of(value: str) -> Decimal:
    """Return the number that Spark's cast of a text gives."""
    if NUMBER.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not a number")
    return Decimal(value)


def _boolean_of(value: str) -> bool:
    return ("false", "true").index(value.lower()) == 1


def _moment_of(value: str) -> datetime:
    date_of(value[:10])
    return datetime.fromisoformat(value)


_READERS: Mapping[str, Callable[[str], object]] = {
    "boolean": _boolean_of,
    "float": number_of,
    "double": number_of,
    "date": date_of,
    "timestamp": _moment_of,
    "timestamp_ntz": _moment_of,
}
"""Functions that return the value of a text by its type, or raise ValueError."""


def merge_fields(versions: Iterable[Iterable[Field]], of: str = "") -> tuple[list[Field], Faults]:
    """Return the columns of all versions of a schema, and those whose types do not go together.

    Structs are merged by field, and numbers are widened to a type in which Spark reads both.
    """
    found: dict[str, Field] = {}
    faults: Faults = []
    for field in (field for fields in versions for field in fields):
        before = found.setdefault(field["name"], field)
        kind, wrong = _merged(before["type"], field["type"], of + field["name"])
        found[field["name"]] = {**before, "type": kind}
        faults += wrong
    if of and len({name.lower() for name in found}) < len(found):
        faults.append((of[:-1], {"type": "struct", "fields": [*found.values()]}, None))
    return [*found.values()], faults


def _merged(left: Any, right: Any, name: str) -> tuple[Any, Faults]:
    """Return the type of a column or field that has two types; the left one if there is none."""
    if left == right:
        return left, []
    if not isinstance(left, dict) or not isinstance(right, dict):
        kind = None if isinstance(left, dict) or isinstance(right, dict) else _widened(left, right)
        return (left, [(name, left, right)]) if kind is None else (kind, [])
    if left["type"] != right["type"] or left["type"] not in _INSIDE:
        return left, [(name, left, right)]
    if left["type"] == "struct":
        fields, faults = merge_fields((left["fields"], right["fields"]), f"{name}.")
        return {**left, "fields": fields}, faults
    inside = {part: _merged(left[part], right[part], name) for part in _INSIDE[left["type"]]}
    faults = [fault for _, wrong in inside.values() for fault in wrong]
    return left | {part: kind for part, (kind, _) in inside.items()}, faults


def _widened(left: str, right: str) -> str | None:
    """Return the type in which Spark reads the numbers of two types from Parquet files, if any."""
    kinds = {left, right}
    if kinds <= {*_DIGITS}:
        return max(kinds, key=[*_DIGITS].index)
    if kinds <= _IN_DOUBLE:
        return "double"
    sizes = [
        (int(found[1]), int(found[2])) if found else (_DIGITS.get(kind, _TOO_MANY), 0)
        for kind in kinds
        for found in [_DECIMAL.fullmatch(kind)]
    ]
    scale = max(scale for _, scale in sizes)
    digits = scale + max(precision - scale for precision, scale in sizes)
    return f"decimal({digits},{scale})" if digits < _TOO_MANY else None


def simple_name(kind: Any) -> str:
    """Return the name of a type in SQL: ``struct<x:bigint>``."""
    if not isinstance(kind, dict):
        return _NAMES.get(kind, str(kind))
    if kind["type"] == "struct":
        inside = ",".join(f"{each['name']}:{simple_name(each['type'])}" for each in kind["fields"])
    else:
        inside = ",".join(simple_name(kind[part]) for part in _INSIDE.get(kind["type"], ()))
    return f"{kind['type']}<{inside}>"


def table_of(key: bytes, value: bytes) -> tuple[str, Kept] | None:
    """Return the folder that Spark's writer wrote a file into, and what the entry keeps; None for other files."""
    kept = kept_of(decode_entry(key, value)) if MARK in value else ("", "")
    if not any(kept):
        return None
    folder = key.decode().rpartition("/")[0]
    for _ in fields_of(kept[1]):
        folder = folder.rpartition("/")[0]
    return (f"{folder}/" if folder else ""), kept


def folders_of(path: str) -> list[str]:
    """Return the folder of a file, and those above it without its ``key=value`` folders."""
    folder = path.rpartition("/")[0]
    found = [f"{folder}/" if folder else ""]
    for inner in reversed(value_folders(path)):
        found.append(found[-1][: -len(inner) - 1])
    return found


def parquet_file(stores: FilePlaces, entry: Entry) -> Any:
    """Return a ``pyarrow.parquet.ParquetFile`` of an entry; its footer is read."""
    from pyarrow.parquet import ParquetFile

    return ParquetFile(RangedFile(entry.size, partial(read_range, stores, entry)))


def parquet_fields(stores: FilePlaces, entry: Entry) -> Sequence[Field]:
    """Return the columns in the footer of a Parquet file, without those of unclear type."""
    with parquet_file(stores, entry) as file:
        own = (file.metadata.metadata or {}).get(SPARK_SCHEMA)
        if own:
            return fields_of(own.decode())
        kinds = ((each.name, _ARROW.get(str(each.type))) for each in file.schema_arrow)
        return [{"name": name, "type": kind} for name, kind in kinds if kind]
