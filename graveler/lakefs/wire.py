"""The wire format of Protocol Buffers, as far as lakeFS's messages use it.

The messages have a few plain fields, and a library would need generated code, and a version that is
compatible with all installed packages. Unknown fields are skipped. A repeated scalar has its last value.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

_LIMIT = 1 << 64
_SIGN = 1 << 63
_MAX_VARINT_BYTES = 10
_MORE = 0x80
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_FIXED = {_EIGHT: 8, _FOUR: 4}
_NANOS = 1_000_000_000
_T = TypeVar("_T", int, bytes)


class WireError(Exception):
    """The bytes are not a valid message. The caller adds their place."""


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number of up to 64 bits at `at`, and the position behind it."""
    if at < len(raw) and raw[at] < _MORE:
        return raw[at], at + 1
    value = shift = 0
    for position in range(at, min(at + _MAX_VARINT_BYTES, len(raw))):
        byte = raw[position]
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            if value >= _LIMIT:
                break
            return value, position + 1
        shift += 7
    raise WireError(f"no number at byte {at} of {len(raw)}")


def read_signed(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number in zigzag form at `at`, and the position behind it."""
    value, at = read_varint(raw, at)
    return value >> 1 ^ -(value & 1), at


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at, end = 0, len(raw)
    while at < end:
        tag, at = read_varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise WireError(f"a field without a number before byte {at}")
        if kind == _VARINT:
            value, at = read_varint(raw, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = read_varint(raw, at)
        elif kind in _FIXED:  # fields of this type are skipped
            size = _FIXED[kind]
        else:
            raise WireError(f"field {number} has the type {kind}")
        if at + size > end:
            raise WireError(f"field {number} has {size} bytes, and {end - at} follow")
        yield number, raw[at : at + size]
        at += size


class Message:
    """A message: its fields by number. Each field is read as its required type."""

    __slots__ = ("_fields", "what")

    def __init__(self, raw: bytes, what: str) -> None:
        self.what = what
        self._fields: dict[int, list[int | bytes]] = {}
        try:
            for number, value in _fields(raw):
                self._fields.setdefault(number, []).append(value)
        except WireError as error:
            raise WireError(f"{what}: {error}") from None

    def _last(self, number: int, default: _T) -> _T:
        """Return the last value of a field, of the type of the default."""
        values = self._fields.get(number)
        value = default if values is None else values[-1]
        if not isinstance(value, type(default)):
            kind = type(default).__name__
            raise WireError(f"{self.what}: field {number} is not of the type {kind}")
        return value

    def number(self, number: int) -> int:
        """Return a signed number of 64 bits, or 0 if the field is missing."""
        value = self._last(number, 0)
        return value - _LIMIT if value >= _SIGN else value

    def binary(self, number: int) -> bytes:
        """Return bytes, or b"" if the field is missing."""
        return self._last(number, b"")

    def text(self, number: int) -> str:
        """Return text, or "" if the field is missing."""
        return self._decoded(number, self.binary(number))

    def texts(self, number: int) -> tuple[str, ...]:
        """Return the values of a repeated text."""
        return tuple(self._decoded(number, value) for value in self._repeated(number))

    def pairs(self, number: int) -> dict[str, str]:
        """Return a map of text to text: repeated messages of key (1) and value (2)."""
        pairs = {}
        for value in self._repeated(number):
            pair = Message(value, f"{self.what}, field {number}")
            pairs[pair.text(1)] = pair.text(2)
        return pairs

    def moment_us(self, number: int) -> tuple[int, int] | None:
        """Return a Timestamp in whole seconds and in microseconds since 1970, or None."""
        if number not in self._fields:
            return None
        time = Message(self.binary(number), f"{self.what}, field {number}")
        seconds, nanos = time.number(1), time.number(2)
        if not 0 <= nanos < _NANOS:
            raise WireError(f"{self.what}, field {number}: {nanos} nanoseconds")
        return seconds, seconds * 1_000_000 + nanos // 1000

    def _repeated(self, number: int) -> Iterable[bytes]:
        for value in self._fields.get(number, ()):
            if not isinstance(value, bytes):
                raise WireError(f"{self.what}: field {number} is not of the type bytes")
            yield value

    def _decoded(self, number: int, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise WireError(f"{self.what}: field {number} is not UTF-8: {error}") from error
