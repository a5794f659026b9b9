"""Stored records: JSON, its format, and one declaration for each record.

A record is a dataclass, and its annotations say how each field is stored. `Schema` encodes and
decodes it. A missing or wrong field raises a CorruptionError that names the record, the field and
its value. Unknown fields are ignored. Bytes from a key-value store, an object store or a file are
never trusted.
"""

import json
import math
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from itertools import count, repeat
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from graveler.base.clock import from_unix_us, unix_us
from graveler.errors import CorruptionError, NewerFormatError, OlderFormatError
from graveler.model import LONGEST_DURATION, TIMES

FORMAT = 2
"""The format of every record, table and dump that is written, and the only one that is read.

Repository records, tables and dumps state it. Other records state it only if it differs from the
format of their repository."""
_UNSTAMPED = 1
_LARGEST = 2**63 - 1
_MICROSECOND = timedelta(microseconds=1)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[!-~]{1,1024}")
_NO_PLACE = re.compile("[\0\ud800-\udfff]")
_brief = reprlib.Repr()
_brief.maxlevel = 2
_brief.maxstring = 80
T = TypeVar("T")


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
    """Return a value that is not a record. Its objects may have any names, even ``format``."""
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


class Unfit(Exception):
    """A stored value that is not of its type, before it is known which record has it.

    Attributes:
        path: The field within the record: ``verdicts[0].gate``.
    """

    def __init__(self, value: Any, expected: str) -> None:
        super().__init__(expected)
        self.value = value
        self.expected = expected
        self.path = ""

    def within(self, place: str | int) -> "Unfit":
        """Return the fault as that of a field or an item of a larger value."""
        dot = "" if self.path[:1] in {"", "["} else "."
        self.path = f"{place if isinstance(place, str) else [place]}{dot}{self.path}"
        return self

    def of(self, what: str) -> CorruptionError:
        """Return the error of the record `what`."""
        shown = "missing" if self.value is MISSING else _brief.repr(self.value)
        wrong = f"field {self.path!r} is {shown}, expected" if self.path else f"{shown} is not"
        return CorruptionError(f"{what} cannot be read: {wrong} {self.expected}")


class FieldType(Generic[T]):
    """How a value is stored, and which stored values are accepted.

    Attributes:
        dump: Returns the value for JSON. None: JSON has the value itself.
        kinds: A stored value of these types that `fits` accepts is the value. No call loads it.
    """

    def __init__(
        self,
        load: Callable[[Any], T],
        dump: Callable[[T], Any] | None = None,
        kinds: tuple[type, ...] = (),
        fits: Callable[[Any], Any] | None = None,
    ) -> None:
        self.load = load
        self.dump = dump
        self.kinds = kinds
        self.fits = fits

    def to_json(self, value: T) -> Any:
        """Return a value for JSON."""
        return value if self.dump is None else self.dump(value)

    def read(self, value: Any, what: str) -> T:
        """Return the value of a stored one, or raise CorruptionError. `what` names it in errors."""
        try:
            return self.load(value)
        except Unfit as fault:
            raise fault.of(what) from None


def checked(
    expected: str, *kinds: type, fits: Callable[[Any], Any] | None = None
) -> FieldType[Any]:
    """Return the type of values that JSON has itself, are of one of these kinds, and fit."""

    def load(value: Any) -> Any:
        if type(value) not in kinds or (fits is not None and not fits(value)):
            raise Unfit(value, expected)
        return value

    return FieldType(load, None, kinds, fits)


def _anything(value: Any) -> Any:
    if value is MISSING:
        raise Unfit(value, "a value")
    return value


def _hexadecimal(value: Any) -> bytes:
    if type(value) is str:
        with suppress(ValueError):
            return bytes.fromhex(value)
    raise Unfit(value, "hexadecimal digits")


def _duration(value: Any) -> timedelta:
    if type(value) is int and 0 <= value <= LONGEST_DURATION // _MICROSECOND:
        return timedelta(microseconds=value)
    raise Unfit(value, f"a length of time of at most {LONGEST_DURATION}, in µs")


def integer(least: int = 0) -> FieldType[int]:
    """Return the type of whole numbers from `least` to 2**63 - 1."""
    return checked(
        f"a whole number from {least} on",
        int,
        fits=range(least, _LARGEST + 1).__contains__,
    )


def real(most: float = _LARGEST) -> FieldType[float]:
    """Return the type of numbers from 0 to `most`."""
    return checked(
        f"a number from 0 to {most:g}", int, float, fits=lambda value: 0 <= value <= most
    )


def one_of(kind: type[Enum]) -> FieldType[Any]:
    """Return the type of the members of an enumeration, which are stored by their values."""
    members = {member.value: member for member in kind}

    def load(value: Any) -> Any:
        if type(value) is not str or value not in members:
            raise Unfit(value, f"one of {list(members)}")
        return members[value]

    return FieldType(load)


def optional(item: FieldType[T], none: Any = None) -> FieldType[Any]:
    """Return the type of values that may also be `none`."""
    load, dump = item.load, item.dump
    return FieldType(
        lambda value: value if value == none else load(value),
        dump and (lambda value: value if value == none else dump(value)),
    )


def _loaded(items: Iterable[tuple[str | int, Callable[[Any], Any], Any]]) -> Iterator[Any]:
    """Yield the value of each stored one, or raise an `Unfit` that names its place."""
    for place, load, value in items:
        try:
            yield load(value)
        except Unfit as fault:
            raise fault.within(place) from None


def array(item: FieldType[T]) -> FieldType[tuple[T, ...]]:
    """Return the type of arrays with items of one type."""
    dump = item.dump

    def load(value: Any) -> tuple[T, ...]:
        if type(value) is not list:
            raise Unfit(value, "an array")
        try:
            return tuple(map(item.load, value))
        except Unfit:
            return tuple(_loaded(zip(count(), repeat(item.load), value)))

    if dump is None:
        return FieldType(load)
    return FieldType(load, lambda items: list(map(dump, items)))


def mapping(item: FieldType[T]) -> FieldType[Mapping[str, T]]:
    """Return the type of objects with any names, and values of one type."""
    dump = item.dump

    def load(value: Any) -> Mapping[str, T]:
        if type(value) is not dict:
            raise Unfit(value, "an object")
        items = zip(value, repeat(item.load), value.values())
        return dict(zip(value, _loaded(items), strict=True))

    if dump is None:
        return FieldType(load, dict)
    return FieldType(load, lambda items: {name: dump(each) for name, each in items.items()})


def row(
    *columns: FieldType[Any],
    make: Callable[..., Any] = lambda *items: items,
    split: Callable[[Any], Iterable[Any]] | None = None,
) -> FieldType[Any]:
    """Return the type of arrays with one item of each type."""
    dumps = [column.dump for column in columns]

    def load(value: Any) -> Any:
        if type(value) is not list or len(value) != len(columns):
            raise Unfit(value, f"an array of {len(columns)} items")
        try:
            return make(
                *[
                    each
                    if type(each) in one.kinds and (one.fits is None or one.fits(each))
                    else one.load(each)
                    for one, each in zip(columns, value, strict=True)
                ]
            )
        except Unfit:
            return make(*_loaded(zip(count(), [one.load for one in columns], value)))

    def dump(value: Any) -> list[Any]:
        items = split(value) if split else value
        return [each if one is None else one(each) for one, each in zip(dumps, items, strict=True)]

    return FieldType(load, dump if split or any(dumps) else None)


ANY: FieldType[Any] = FieldType(_anything)
TEXT = checked("text", str)
FLAG = checked("true or false", bool)
NAME = checked("a name of printable ASCII", str, fits=_NAME.fullmatch)
DIGEST = checked("an id of 64 hexadecimal digits", str, fits=_DIGEST.fullmatch)
DIGEST_OR_NONE = optional(DIGEST, none="")
PLACE = checked("the place of a store", str, fits=lambda value: not _NO_PLACE.search(value))
PLAIN = checked("a plain value", str, int, float, bool, type(None))
MICROSECONDS = checked(
    f"a time from {TIMES[0]:%Y} to {TIMES[1]:%Y}, in µs since 1970",
    int,
    fits=range(unix_us(TIMES[0]), unix_us(TIMES[1]) + 1).__contains__,
)
MOMENT = FieldType(lambda value: from_unix_us(MICROSECONDS.load(value)), unix_us)
DURATION = FieldType(_duration, lambda value: value // _MICROSECOND)
HEX = FieldType(_hexadecimal, bytes.hex)
PAIRS = mapping(TEXT)

Digest = Annotated[str, DIGEST]
DigestOrNone = Annotated[str, DIGEST_OR_NONE]
"""An id, or "" for none."""
Name = Annotated[str, NAME]
Microseconds = Annotated[int, MICROSECONDS]
"""A time in µs since 1970."""

_TYPES: Mapping[Any, FieldType[Any]] = {
    str: TEXT,
    int: integer(),
    float: real(),
    bool: FLAG,
    bytes: HEX,
    datetime: MOMENT,
    timedelta: DURATION,
    Any: ANY,
}


def _type_of(hint: Any) -> FieldType[Any]:
    """Return how the values of an annotation are stored."""
    if hint in _TYPES:
        return _TYPES[hint]
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        stored: FieldType[Any] = parts[1]
        return stored
    if origin in {Union, UnionType}:
        return optional(_type_of(parts[0]))
    if origin is tuple:
        return array(_type_of(parts[0])) if parts[-1] is ... else row(*map(_type_of, parts))
    if origin in {dict, Mapping}:
        return mapping(_type_of(parts[1]))
    return one_of(hint) if issubclass(hint, Enum) else Schema(hint)


class _Field(NamedTuple):
    name: str
    key: str
    stored: FieldType[Any]
    may_lack: bool
    sparse: bool


class Schema(FieldType[T]):
    """How a dataclass is stored: as an object, whose fields have the types of their annotations.

    Args:
        keys: The names in the record of the fields that have another name there.
        types: The types of the fields whose annotation does not say it.
        apart: Fields that are not in the record.
        added: Fields that older records lack. They then have their defaults.
        sparse: Fields that a record lacks while they are empty.
        fixed: Fields that every record has, with their values. The dataclass does not have them.
        states_format: Whether a record states its format.
        stamped: Whether a record that does not state its format is one of the first format.
    """

    def __init__(
        self,
        record: type[T],
        what: str = "",
        *,
        keys: Mapping[str, str] = {},
        types: Mapping[str, FieldType[Any]] = {},
        apart: Collection[str] = (),
        added: Collection[str] = (),
        sparse: Collection[str] = (),
        fixed: Mapping[str, str] = {},
        states_format: bool = False,
        stamped: bool = False,
    ) -> None:
        super().__init__(self._load, self.plain)
        self.what = what
        self._record = record
        self._format = {"format": FORMAT} if states_format or stamped else {}
        self._fixed = fixed
        self._stamped = stamped
        self._fields = [
            _Field(
                field.name,
                keys.get(field.name, field.name),
                types.get(field.name) or _type_of(field.type),
                may_lack=field.name in added or field.name in sparse,
                sparse=field.name in sparse,
            )
            for field in fields(cast("Any", record))
            if field.name not in apart
        ]

    def encode(self, record: T, **more: Any) -> bytes:
        """Return a record as bytes. `more` are fields that the dataclass does not have."""
        return encode_json(self.plain(record) | more)

    def decode(self, raw: bytes, what: str = "", **given: Any) -> T:
        """Return the record of these bytes, or raise CorruptionError.

        Args:
            given: The fields that are not in the record.
        """
        what = what or self.what
        return self.read(decode_json(raw, what, stamped=self._stamped), what, **given)

    def plain(self, record: T) -> dict[str, Any]:
        """Return the fields of a record as values of JSON."""
        plain: dict[str, Any] = {**self._format, **self._fixed}
        for name, key, stored, _, sparse in self._fields:
            value = getattr(record, name)
            if value or not sparse:
                plain[key] = value if stored.dump is None else stored.dump(value)
        return plain

    def read(self, value: Any, what: str, **given: Any) -> T:
        """Return the record of JSON values, or raise CorruptionError; see `decode`."""
        try:
            return self._load(value, **given)
        except Unfit as fault:
            raise fault.of(what) from None

    def _load(self, value: Any, **given: Any) -> T:
        if type(value) is not dict:
            raise Unfit(value, "an object")
        for name, key, stored, may_lack, _ in self._fields:
            found = value.get(key, MISSING)
            if type(found) in stored.kinds and (stored.fits is None or stored.fits(found)):
                given[name] = found
            elif found is not MISSING or not may_lack:
                try:
                    given[name] = stored.load(found)
                except Unfit as fault:
                    raise fault.within(key) from None
        for key, fixed in self._fixed.items():
            if value.get(key) != fixed:
                expected = f"{fixed!r}, unless a newer graveler wrote it"
                raise Unfit(value.get(key, MISSING), expected).within(key)
        return self._record(**given)

    def row(self) -> FieldType[T]:
        """Return the type of records that are stored as arrays of their fields."""
        names = [field.name for field in self._fields]
        types = [field.stored for field in self._fields]
        return row(*types, make=self._record, split=attrgetter(*names))


def load_fields(value: Any, **types: FieldType[Any]) -> list[Any]:
    """Return the fields of a record that is no dataclass, in the order of `types`."""
    if type(value) is not dict:
        raise Unfit(value, "an object")
    items = ((name, one.load, value.get(name, MISSING)) for name, one in types.items())
    return list(_loaded(items))


def read_fields(value: Any, what: str, **types: FieldType[Any]) -> list[Any]:
    """Return such fields, or raise CorruptionError. `what` names the record in errors."""
    return FieldType(partial(load_fields, **types)).read(value, what)
