"""The choice of a table's files by the partition values in their paths, before any library sees them.

A partition value is text in a path: ``day=2026-01-03``. It is compared by the type of the caller's value or
of its column: the number 1 matches ``month=1`` and ``month=01``, and the text "1" only the first.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from graveler.errors import InvalidInputError
from graveler.frames.where import COMPARISONS, Condition, Zone
from graveler.reads.partitions import Files, folder_values, is_in_table, partition_columns
from graveler.reads.schemas import date_of, number_of, text_partitions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def prune(path: str, files: Files, wanted: Sequence[Condition], zone: Zone) -> Files:
    """Return the files whose partitions satisfy all conditions."""
    columns = partition_columns([relative for relative, _ in files])
    for condition in wanted:
        if condition.column not in columns:
            known = f"choose of {', '.join(columns)}" if columns else "the table has none"
            raise InvalidInputError(
                f"where: {condition.column!r} is not a partition column of {path!r} ({known})"
            )
    tests = [(condition.column, _test(condition, zone)) for condition in wanted]
    return [
        (relative, entry)
        for relative, entry in files
        for values in [dict(folder_values(relative))]
        if all(test(values[name]) for name, test in tests)
    ]


def pruned(
    files: Files, wanted: Sequence[Condition], zone: Zone
) -> tuple[Files, tuple[Condition, ...]]:
    """Return the files whose partitions satisfy the conditions on them, and the conditions on rows.

    If there is no such file, the first of all is returned, for its columns, with a condition that no
    row satisfies.
    """
    columns = partition_columns([relative for relative, _ in files])
    rows = tuple(each for each in wanted if each.column not in columns)
    partitions = [each for each in wanted if each.column in columns]
    found = prune("", files, partitions, zone) if partitions else files
    if found or not files:
        return found, rows
    return files[:1], (*rows, Condition(partitions[0].column, "==", ()))


def in_partitions_of(
    written: Collection[str], files: Files, schema: "StructType", zone: Zone
) -> list[str]:
    """Return the files of a table that are in the same partitions as the written files.

    Values are compared as Spark reads them. A column has numbers, dates or times if the frame says so, no
    file was written with it as text, and each of its values is one. Otherwise it is text.
    """
    values = {name: folder_values(name) for name, _ in files if is_in_table(name)}
    texts = {pair for pairs in values.values() for pair in pairs if pair[1] is not None}
    as_text = text_partitions(files)
    known: dict[tuple[str, str | None], Any] = {}
    for field in schema.fields:
        own = [pair for pair in texts if pair[0] == field.name and pair[0] not in as_text]
        read = _reader_of(field.dataType, zone) if own else None
        if read is not None:
            with suppress(ValueError):
                known |= {pair: (field.name, read(str(pair[1]))) for pair in own}
    partitions = {
        name: tuple(known.get(pair, pair) for pair in pairs) for name, pairs in values.items()
    }
    wanted = {partitions[name] for name in written}
    return [name for name, partition in partitions.items() if partition in wanted]


def _reader_of(kind: "DataType", zone: Zone) -> "Callable[[str], Any] | None":
    """Return the function that reads the values of a column; None to compare them as text."""
    from pyspark.sql.types import DateType, NumericType, TimestampType

    if isinstance(kind, NumericType):
        return number_of
    if isinstance(kind, TimestampType):
        return partial(_time, zone=zone())
    return date_of if isinstance(kind, DateType) else None


def _test(condition: Condition, zone: Zone) -> Callable[[str | None], bool]:
    """Return a function that compares the text of a path with the wanted values."""
    sign, name = condition.operator, condition.column
    tests = [partial(_holds, sign, value, _reader(name, value, zone)) for value in condition.values]
    if sign == "!=":
        return lambda found: found is not None and all(test(found) for test in tests)
    return lambda found: any(test(found) for test in tests)


def _reader(name: str, value: Any, zone: Zone) -> Callable[[str], Any]:
    """Return the function that reads a text as a value of the wanted value's type."""
    if value is None:
        return str
    if isinstance(value, datetime):
        return partial(_time, zone=zone())
    for kind, read in _READERS.items():
        if isinstance(value, kind):
            return read
    raise InvalidInputError(
        f"where: {name!r}={value!r}: give text, a number, a date, a time, True, False or "
        "None, or a list of them"
    )


def _holds(sign: str, wanted: Any, read: Callable[[str], Any], found: str | None) -> bool:
    if wanted is None or found is None:
        return sign == ("==" if wanted is found else "!=")
    try:
        value, other = read(found), read(str(wanted))
        if sign in COMPARISONS:
            return bool(COMPARISONS[sign](value, other))
    except (ValueError, ArithmeticError):  # a text of another type only differs; NaN has no order
        return sign == "!="
    same = value == other or (value != value and other != other)  # NaN equals itself, as in Spark
    return bool(same) is (sign == "==")


def _time(text: str, zone: tzinfo) -> timedelta:
    """Return the time since 1970, which is exact near the first and last year and a change of clocks."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=time.tzinfo or zone) - _EPOCH


_READERS: Mapping[type, Callable[[str], Any]] = {
    str: str,
    bool: str.lower,
    date: date_of,
    int: number_of,
    float: number_of,
    Decimal: number_of,
}
"""Functions that parse a text, by the type of the wanted value; a bool is an int."""
