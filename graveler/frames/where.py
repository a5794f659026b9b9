"""The conditions of ``where=``, which mean the same for the frames of every library.

A condition holds for a row or not: a null satisfies no comparison, as in SQL, and NaN only ``== NaN``
and ``!=``, as in Python. Numbers, texts, dates and times are compared with values of their own kind.
"""

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

from graveler.base.arguments import choice, several, text
from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

Where = Mapping[str, Any] | Sequence[tuple[str, str, Any]]
"""For each column a value or a list of values; or triples of column, operator and value. All must hold."""
Zone = Callable[[], tzinfo]
"""Returns the time zone of times that state none. It is asked only if such a time is compared."""

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The operators that compare with one value, and leave out nulls and NaN."""
_OPERATORS = ("==", "!=", *COMPARISONS, "in", "not in")
_COMPARISON = re.compile(
    r"""\s*(?:["`]([^"`]+)["`]|(\w+))\s*(?:([<>=!]=?)\s*('[^']*'|-?[\d.]+))?"""
)
_LISTS = (list, tuple, set, frozenset, range)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column.

    Attributes:
        operator: ``==`` holds for each of the values, ``!=`` for none of them; others have one value.
    """

    column: str
    operator: str
    values: tuple[Any, ...]


def conditions(where: Where | None) -> tuple[Condition, ...]:
    """Return the conditions of the argument ``where``."""
    if where is None:
        return ()
    given: Any = where
    if isinstance(given, str):
        words = _COMPARISON.match(given)
        quoted, plain, sign, value = words.groups() if words else ("COLUMN", "", "", "")
        raise InvalidInputError(
            f"where={given!r}: a text is no condition: give where=[({quoted or plain!r}, {sign or '=='!r}, "
            f"{value or 'VALUE'})], or ask DuckDB: scan(path, 'duckdb').filter({given!r})"
        )
    if isinstance(where, Mapping):
        return tuple(Condition(text(name, "where"), "==", _values(where[name])) for name in where)
    return tuple(map(_condition, several(where, "where", "(column, operator, value)")))


def _condition(triple: Any) -> Condition:
    if not isinstance(triple, list | tuple) or len(triple) != 3:
        raise InvalidInputError(
            f"where={triple!r}: give {{column: value}} or [(column, operator, value), …]"
        )
    column, sign, value = triple
    sign = choice("==" if sign == "=" else sign, "where", _OPERATORS)
    if sign in COMPARISONS and (value is None or isinstance(value, _LISTS)):
        raise InvalidInputError(f"where={triple!r}: {sign!r} compares with one value")
    signs = {"in": "==", "not in": "!="}
    return Condition(text(column, "where"), signs.get(sign, sign), _values(value))


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(map(_plain, value if isinstance(value, _LISTS) else (value,)))


def _plain(value: Any) -> Any:
    """Return a value of numpy or pandas as one of Python, and what stands for null as None."""
    if type(value).__name__ in {"NaTType", "NAType"}:
        return None
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":
        shorter = value.astype("datetime64[us]")
        value = shorter if shorter == value else value
    return value.item() if hasattr(value, "item") else value


class Dialect(ABC):
    """The expressions of a library, of the columns of one frame."""

    @abstractmethod
    def column(self, name: str) -> Any:
        """Return a column."""

    @abstractmethod
    def literal(self, name: str, value: Any) -> Any:
        """Return a value to compare with a column."""

    @abstractmethod
    def is_null(self, column: Any) -> Any:
        """Return whether a column is null."""

    @abstractmethod
    def is_nan(self, column: Any) -> Any:
        """Return whether a column of floating-point numbers is NaN."""

    @abstractmethod
    def is_in(self, name: str, values: Sequence[Any]) -> Any:
        """Return whether a column has one of two values or more."""

    def number(self) -> Any:
        """Return a random number from 0 on, so that a test is not decided by statistics of a file.

        The statistics of a Parquet file leave out NaN. None: the library knows that.
        """
        return None

    def all(
        self, wanted: Sequence[Condition], schema: "pa.Schema", zone: Zone = lambda: UTC
    ) -> Any:
        """Return whether all conditions hold; None if there are none."""
        tests = [
            self._test(condition, schema.field(condition.column).type, zone) for condition in wanted
        ]
        return reduce(operator.and_, tests) if tests else None

    def _test(self, condition: Condition, kind: "pa.DataType", zone: Zone) -> Any:
        import pyarrow as pa

        name, sign = condition.column, condition.operator
        column = self.column(name)
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        values = [
            _fitted(name, value, kind, sign, zone)
            for value in condition.values
            if value is not None and not _between(value, kind, sign)
        ]
        null, floating = self.is_null(column), pa.types.is_floating(kind)
        is_nan = any(value != value for value in values)
        if sign in COMPARISONS:
            if is_nan:
                return null & ~null
            test = COMPARISONS[sign](column, self.literal(name, values[0]))
            return test & ~self.is_nan(column) if floating else test
        among = self._among(condition, values, column)
        test = among if sign == "==" else ~among & ~null
        number = self.number() if floating and is_nan is (sign == "==") else None
        return test if number is None else test | self.is_nan(column) | (number < 0)

    def _among(self, condition: Condition, values: Sequence[Any], column: Any) -> Any:
        """Return whether a column has one of the values of a condition."""
        null = self.is_null(column)
        tests = [null] if None in condition.values else []
        if any(value != value for value in values):
            tests.append(self.is_nan(column))
        plain = [value for value in values if value == value]
        if plain:
            equal = column == self.literal(condition.column, plain[0])
            tests.append(equal if len(plain) == 1 else self.is_in(condition.column, plain))
        return reduce(operator.or_, tests) if tests else null & ~null


def _between(value: Any, kind: "pa.DataType", sign: str) -> bool:
    """Return whether no whole number of a column can equal a value."""
    import pyarrow as pa

    if sign in COMPARISONS or isinstance(value, bool) or not pa.types.is_integer(kind):
        return False
    return isinstance(value, int | float | Decimal) and not _is_whole(value, kind)


def _is_whole(value: float | Decimal, kind: "pa.DataType") -> bool:
    """Return whether a number is whole, and has the bits of a column of whole numbers."""
    return math.isfinite(value) and value == int(value) and _has_bits(value, kind)


def _has_bits(value: float | Decimal, kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return -(1 << 63) <= value < 1 << (64 if pa.types.is_unsigned_integer(kind) else 63)


def _fitted(name: str, value: Any, kind: "pa.DataType", sign: str, zone: Zone) -> Any:
    """Return a value as one of the column's type, or refuse one of another kind."""
    from pyarrow import types

    if getattr(value, "nanosecond", 0):
        raise InvalidInputError(f"where: {name!r}={value!r}: give a time of whole microseconds")
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        fitted = _number(value, kind, sign)
    elif types.is_timestamp(kind) and isinstance(value, date):
        fitted = _time(value, kind.tz, zone)
    else:
        same = (
            (bool, types.is_boolean),
            (str, lambda kind: types.is_string(kind) or types.is_large_string(kind)),
            (bytes, lambda kind: types.is_binary(kind) or types.is_large_binary(kind)),
            (datetime, types.is_timestamp),
            (date, types.is_date),
        )
        is_kind = next((check for python, check in same if isinstance(value, python)), None)
        fitted = value if is_kind is not None and is_kind(kind) else None
    if fitted is None:
        raise InvalidInputError(
            f"where: column {name!r} is {kind}, and cannot be compared with {value!r}"
        )
    return fitted


def _number(value: float | Decimal, kind: "pa.DataType", sign: str) -> Any:
    from pyarrow import types

    if types.is_integer(kind) and math.isfinite(value) and _has_bits(value, kind):
        return math.ceil(value) if sign in {"<", ">="} else math.floor(value)
    if types.is_floating(kind):
        return float(value)
    return Decimal(str(value)) if types.is_decimal(kind) else None


def _time(value: date, name: str | None, zone: Zone) -> datetime:
    """Return a time as those of a column in a zone, or of one without zone, which counts as UTC."""
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    if name is None:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    moment = moment if moment.tzinfo else moment.replace(tzinfo=zone())
    return moment.astimezone(ZoneInfo(name) if name in available_timezones() else UTC)
