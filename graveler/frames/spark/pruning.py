"""The choice of a table's files by the partition values in their paths, before Spark sees them.

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
from graveler.reads.partitions import Files, folder_values, is_in_table, partition_columns
from graveler.reads.schemas import date_of, number_of, text_partitions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_SHOWN = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Zone = Callable[[], tzinfo]
"""Returns the time zone of a session. It is asked only if a time is compared."""


def prune(path: str, files: Files, where: Mapping[str, Any], zone: Zone) -> Files:
    """Return the files whose partitions have the wanted values."""
    columns = partition_columns([relative for relative, _ in files])
    for name in where:
        if name not in columns:
            known = f"choose of {', '.join(columns)}" if columns else "the table has none"
            raise InvalidInputError(
                f"where: {name!r} is not a partition column of {path!r} ({known}): filter the frame by "
                "the other columns"
            )
    wanted = {name: [_test(name, value, zone) for value in _several(where[name])] for name in where}
    return [
        (relative, entry)
        for relative, entry in files
        if all(
            any(test(values[name]) for test in tests)
            for values in [dict(folder_values(relative))]
            for name, tests in wanted.items()
        )
    ]


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


def seen_values(files: Files, columns: Sequence[str]) -> str:
    """Return some values of partition columns, for an error."""
    partitions = (dict(folder_values(relative)) for relative, _ in files)
    values = sorted({f"{name}={values[name]}" for values in partitions for name in columns})
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more


def _several(value: Any) -> Sequence[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset | range) else [value]


def _test(name: str, value: Any, zone: Zone) -> Callable[[str | None], bool]:
    """Return a function that compares the text of a path with a wanted value."""
    if value is None:
        return lambda text: text is None
    if isinstance(value, datetime):
        read_time = partial(_time, zone=zone())
        return partial(_equals, read_time, read_time(str(value)))
    for kind, read in _READERS.items():
        if isinstance(value, kind):
            return partial(_equals, read, read(str(value)))
    raise InvalidInputError(
        f"where: {name!r}={value!r}: give text, a number, a date, a time, True, False or "
        "None, or a list of them"
    )


def _equals(read: Callable[[str], Any], value: Any, text: str | None) -> bool:
    try:
        found = None if text is None else read(text)
        # NaN equals itself, as in Spark
        return found is not None and bool(found == value or (found != found and value != value))
    except ValueError:
        return False


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
