"""The choice of a table's files by the values in their paths, before Spark sees them.

A partition column is text in a path: ``day=2026-01-03``. It is compared as what the caller gives, so
that the number 1 finds ``month=1`` and ``month=01``, and the text "1" only the first.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

from graveler.errors import InvalidInputError
from graveler.spark.ports import Files, folder_values, partition_columns

_SHOWN: Final = 5


def prune(path: str, files: Files, where: Mapping[str, Any]) -> Files:
    """Return the files whose partitions have the wanted values.

    Args:
        path: The table, for errors.
        files: All of its files.
        where: For each column a value, or a list of them; None is the partition of nulls.

    Raises:
        InvalidInputError: A column is no partition column, or a value is of no such type.
    """
    columns = partition_columns([relative for relative, _ in files])
    for name in where:
        if name not in columns:
            known = f"choose of {', '.join(columns)}" if columns else "the table has none"
            raise InvalidInputError(
                f"where: {name!r} is no partition column of {path!r} ({known}): filter the frame by "
                "the other columns"
            )
    wanted = {name: [_test(name, value) for value in _several(where[name])] for name in where}
    return [
        (relative, entry)
        for relative, entry in files
        if all(
            any(test(values[name]) for test in tests)
            for values in [dict(folder_values(relative))]
            for name, tests in wanted.items()
        )
    ]


def seen_values(files: Files, columns: Sequence[str]) -> str:
    """Return some values of partition columns, for an error."""
    partitions = (dict(folder_values(relative)) for relative, _ in files)
    values = sorted({f"{name}={values[name]}" for values in partitions for name in columns})
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more


def _several(value: Any) -> Sequence[Any]:
    return list(value) if isinstance(value, list | tuple | set | frozenset | range) else [value]


def _test(name: str, value: Any) -> Callable[[str | None], bool]:
    """Return a function that compares the text of a path with a wanted value."""
    if value is None:
        return lambda text: text is None
    for kind, read in _READERS.items():
        if isinstance(value, kind):
            return partial(_equals, read, read(str(value)))
    raise InvalidInputError(
        f"where: {name!r}={value!r}: give text, a number, a date, a time in UTC, True, False or "
        "None, or a list of them"
    )


def _equals(read: Callable[[str], Any], value: Any, text: str | None) -> bool:
    try:
        found = None if text is None else read(text)
        # as for Spark, NaN is equal to itself
        return found is not None and bool(found == value or (found != found and value != value))
    except (ValueError, InvalidOperation):
        return False


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=time.tzinfo or UTC)


_READERS: Final[Mapping[type, Callable[[str], Any]]] = {
    str: str,
    bool: str.lower,
    datetime: _time,
    date: date.fromisoformat,
    int: Decimal,
    float: Decimal,
    Decimal: Decimal,
}
"""What makes a value of a text, by the type of the wanted value; a bool is an int, a datetime a date."""
