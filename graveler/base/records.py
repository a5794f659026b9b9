"""Stored records: JSON, its format, and its fields, each read as its required type.

A record is a JSON object, or an array whose items have names. A missing or wrong field raises a
CorruptionError that names the record, the field and its value. Bytes from a key-value store, an
object store or a file are never trusted.
"""

import json
import math
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeVar

from graveler.base.clock import from_unix_us, unix_us
from graveler.errors import CorruptionError, NewerFormatError, OlderFormatError
from graveler.model import LONGEST_DURATION, TIMES, Move

FORMAT = 2
"""The format of every record, table and dump that is written, and the only one that is read.

Repository records, tables and dumps state it. Other records state it only if it differs from the
format of their repository."""
_UNSTAMPED = 1
_LARGEST = 2**63 - 1
_MISSING = object()
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[!-~]{1,1024}")
_brief = reprlib.Repr()
_brief.maxlevel = 2
_brief.maxstring = 80
_E = TypeVar("_E", bound=Enum)


_to_json = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
).encode


def _finite(text: str) -> float:
    """Return a number of JSON. NaN and infinity are refused, because JSON cannot contain them."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


_from_json = json.JSONDecoder(parse_float=_finite, parse_constant=_finite).decode


def encode_json(value: Any) -> bytes:
    """Return the shortest JSON of `value`, keys sorted, in UTF-8."""
    return _to_json(value).encode("utf-8", "surrogatepass")


def decode_json(raw: bytes, what: str, *, stamped: bool = False) -> Any:
    """Return the value of JSON bytes.

    Args:
        raw: The bytes.
        what: The name of the value in errors.
        stamped: Whether records of this kind always state their format. A record without a format
            is then of the first one.
    """
    value = decode_plain(raw, what)
    if type(value) is dict and ("format" in value or stamped):
        name = value.get("name", value.get("key"))
        stated = value.pop("format", _UNSTAMPED)
        check_format(stated, what if name is None else f"{what} of {name!r}")
    return value


def decode_plain(raw: bytes, what: str) -> Any:
    """Return a value that is not a record. Its objects may have any names, even ``format``.

    Args:
        raw: The bytes.
        what: The name of the value in errors.
    """
    try:
        return _from_json(raw.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"{what} is not JSON: {raw[:60]!r}") from error


def read_key(key: bytes, what: str) -> str:
    """Return the text of a stored key, or raise CorruptionError."""
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptionError(f"{what}: its key {key!r} is not UTF-8") from error


def check_format(found: Any, what: str) -> None:
    """Refuse a record of another format. Reading would be a guess, and writing would lose data."""
    if type(found) is not int or found < 1:
        raise CorruptionError(f"{what} has the format {found!r}: formats are 1, 2 and so on")
    if found < FORMAT:
        raise OlderFormatError(
            f"{what} has format {found}, and this graveler reads only format {FORMAT}: make a new "
            "repository with it and put or link the files there; the data files of the old one "
            "stay readable where they are, and nothing was changed"
        )
    if found > FORMAT:
        raise NewerFormatError(
            f"{what} has format {found}, and this graveler reads formats up to {FORMAT}: "
            "upgrade graveler; the record was left as it is"
        )


class Fields:
    """The fields of one record.

    Args:
        what: The name of the record in errors.
    """

    __slots__ = ("_record", "what")

    def __init__(self, record: Any, what: str) -> None:
        if type(record) is not dict:
            raise CorruptionError(f"{what} cannot be read: {_brief.repr(record)} is not an object")
        self._record: dict[str, Any] = record
        self.what = what

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __contains__(self, name: str) -> bool:
        return name in self._record

    def wrong(self, name: str, expected: str) -> CorruptionError:
        """Return the error for a wrong field."""
        shown = _brief.repr(self._record[name]) if name in self._record else "missing"
        return CorruptionError(
            f"{self.what} cannot be read: field {name!r} is {shown}, expected {expected}"
        )

    def value(self, name: str, default: Any = _MISSING) -> Any:
        """Return a field of any type."""
        value = self._record.get(name, default)
        if value is _MISSING:
            raise self.wrong(name, "a value")
        return value

    def text(self, name: str, default: Any = _MISSING) -> str:
        """Return a text."""
        value = self.value(name, default)
        if type(value) is not str:
            raise self.wrong(name, "text")
        return value

    def place(self, name: str) -> str:
        """Return a text that a store accepts: it is UTF-8 without NUL."""
        value = self.text(name)
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise self.wrong(name, "the place of a store")
        return value

    def name(self, name: str, default: Any = _MISSING) -> str:
        """Return a text for keys: printable ASCII without spaces, or the default."""
        value = self.text(name, default)
        if value != default and not _NAME.fullmatch(value):
            raise self.wrong(name, "a name")
        return value

    def digest(self, name: str, default: Any = _MISSING) -> str:
        """Return an id of 64 hexadecimal digits, or the default."""
        value = self.text(name, default)
        if value != default and not _DIGEST.fullmatch(value):
            raise self.wrong(name, "an id of 64 hexadecimal digits")
        return value

    def number(self, name: str, default: Any = _MISSING, *, least: int = 0) -> int:
        """Return a whole number from `least` to 2**63 - 1."""
        value = self.value(name, default)
        if type(value) is not int or not least <= value <= _LARGEST:
            raise self.wrong(name, f"a whole number from {least} on")
        return value

    def real(self, name: str, *, most: float = _LARGEST) -> float:
        """Return a number from 0 to `most`."""
        value: float = self.value(name)
        if type(value) not in (int, float) or not 0 <= value <= most:
            raise self.wrong(name, f"a number from 0 to {most:g}")
        return value

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        """Return true or false."""
        value = self.value(name, default)
        if type(value) is not bool:
            raise self.wrong(name, "true or false")
        return value

    def plain(self, name: str) -> Any:
        """Return a text, a number, true, false or null."""
        value = self.value(name)
        if not isinstance(value, str | int | float | None):
            raise self.wrong(name, "a plain value")
        return value

    def one_of(self, name: str, kind: type[_E]) -> _E:
        """Return a member of an enumeration, by its value."""
        try:
            return kind(self.text(name))
        except ValueError:
            raise self.wrong(name, f"one of {[member.value for member in kind]}") from None

    def moment(self, name: str) -> datetime:
        """Return a time, which is stored as microseconds since 1970."""
        first, last = TIMES
        try:
            moment = from_unix_us(self.number(name, least=-_LARGEST))
        except OverflowError:
            moment = None
        if moment is None or not first <= moment <= last:
            raise self.wrong(name, f"a time from {first:%Y} to {last:%Y}")
        return moment

    def duration(self, name: str) -> timedelta:
        """Return a length of time, which is stored as microseconds."""
        duration = timedelta(microseconds=self.number(name))
        if duration > LONGEST_DURATION:
            raise self.wrong(name, f"at most {LONGEST_DURATION}")
        return duration

    def binary(self, name: str) -> bytes:
        """Return bytes, which are stored as hexadecimal digits."""
        try:
            return bytes.fromhex(self.text(name))
        except ValueError:
            raise self.wrong(name, "hexadecimal digits") from None

    def array(self, name: str, default: Any = _MISSING) -> Sequence[Any]:
        """Return an array."""
        value = self.value(name, default)
        if type(value) is not list and value is not default:
            raise self.wrong(name, "an array")
        items: Sequence[Any] = value
        return items

    def texts(self, name: str, default: Any = _MISSING) -> tuple[str, ...]:
        """Return an array of texts."""
        texts = tuple(self.array(name, default))
        if any(type(value) is not str for value in texts):
            raise self.wrong(name, "an array of texts")
        return texts

    def names(self, name: str, default: Any = _MISSING) -> tuple[str, ...]:
        """Return an array of texts for keys."""
        names = self.texts(name, default)
        if not all(map(_NAME.fullmatch, names)):
            raise self.wrong(name, "an array of names")
        return names

    def digests(self, name: str, default: Any = _MISSING) -> tuple[str, ...]:
        """Return an array of ids."""
        digests = self.texts(name, default)
        if not all(map(_DIGEST.fullmatch, digests)):
            raise self.wrong(name, "an array of ids of 64 hexadecimal digits")
        return digests

    def mapping(self, name: str, default: Any = _MISSING) -> Mapping[str, Any]:
        """Return an object with values of any type."""
        value = self.value(name, default)
        if type(value) is not dict:
            raise self.wrong(name, "an object")
        mapping: Mapping[str, Any] = value
        return mapping

    def pairs(self, name: str, default: Any = _MISSING) -> Mapping[str, str]:
        """Return an object whose values are texts."""
        pairs = self.mapping(name, default)
        if any(type(value) is not str for value in pairs.values()):
            raise self.wrong(name, "an object of texts")
        return pairs

    def record(self, name: str) -> "Fields":
        """Return an object as a record."""
        return Fields(self.mapping(name), f"{self.what}, {name}")

    def records(self, name: str, default: Any = _MISSING) -> Iterator["Fields"]:
        """Yield the objects of an array."""
        for number, value in enumerate(self.array(name, default)):
            yield Fields(value, f"{self.what}, {name}[{number}]")

    def rows(
        self, name: str, columns: Sequence[str], default: Any = _MISSING
    ) -> Iterator["Fields"]:
        """Yield the arrays of an array as records. `columns` names their items."""
        for number, value in enumerate(self.array(name, default)):
            yield row(value, columns, f"{self.what}, {name}[{number}]")

    def moves(self, name: str) -> tuple[Move, ...]:
        """Return the moves of a branch, oldest first."""
        return tuple(
            Move(
                unix_us(move.moment("at_us")),
                move.text("action"),
                move.digest("commit"),
                move.text("actor"),
            )
            for move in self.rows(name, Move._fields)
        )


def row(value: Any, columns: Sequence[str], what: str) -> Fields:
    """Return an array as a record. `columns` names its items."""
    if type(value) is not list or len(value) != len(columns):
        raise CorruptionError(
            f"{what} cannot be read: {_brief.repr(value)} is not an array of {', '.join(columns)}"
        )
    return Fields(dict(zip(columns, value, strict=True)), what)
