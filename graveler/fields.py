"""The fields of a stored record, each read as the type that it must have.

A record is a JSON object, or an array whose places have names. Whatever is missing, or is not
what it must be, is a CorruptionError that names the record, the field and what is there: bytes
from a key-value store, an object store or a file are never believed.
"""

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, TypeVar

from graveler.clock import from_unix_us
from graveler.errors import CorruptionError
from graveler.model import LONGEST_DURATION, TIMES

_LARGEST: Final = 2**63 - 1
_MISSING: Final = object()
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[!-~]{1,1024}")
_brief: Final = reprlib.Repr()
_brief.maxlevel = 2
_brief.maxstring = 80
_E = TypeVar("_E", bound=Enum)


class Fields:
    """The fields of one record.

    Args:
        record: What its JSON gave.
        what: Names the record in errors.

    Raises:
        CorruptionError: It is no object.
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
        """Return the error for a field that is not as it must be."""
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
        """Return a text that a store takes: it is UTF-8 and holds no NUL."""
        value = self.text(name)
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise self.wrong(name, "the place of a store")
        return value

    def name(self, name: str, default: Any = _MISSING) -> str:
        """Return a text that keys are made of: printable ASCII without spaces, or the default."""
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
        """Return an array of texts that keys are made of."""
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
        """Return an object as a record of its own."""
        return Fields(self.mapping(name), f"{self.what}, {name}")

    def records(self, name: str, default: Any = _MISSING) -> Iterator["Fields"]:
        """Yield the objects of an array."""
        for number, value in enumerate(self.array(name, default)):
            yield Fields(value, f"{self.what}, {name}[{number}]")

    def rows(
        self, name: str, columns: Sequence[str], default: Any = _MISSING
    ) -> Iterator["Fields"]:
        """Yield the arrays of an array, the places of each named by `columns`."""
        for number, value in enumerate(self.array(name, default)):
            yield row(value, columns, f"{self.what}, {name}[{number}]")


def row(value: Any, columns: Sequence[str], what: str) -> Fields:
    """Return an array as a record, its places named by `columns`.

    Raises:
        CorruptionError: It is no array of that length.
    """
    if type(value) is not list or len(value) != len(columns):
        raise CorruptionError(
            f"{what} cannot be read: {_brief.repr(value)} is not an array of {', '.join(columns)}"
        )
    return Fields(dict(zip(columns, value, strict=True)), what)
