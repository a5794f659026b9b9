"""Damage to bytes, and to the structure of JSON."""

import json
from random import Random
from typing import Any

TELLING = (0, 1, 0x22, 0x2C, 0x30, 0x5B, 0x5D, 0x7B, 0x7D, 0x7F, 0x80, 0xC0, 0xFF)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 1.5, -0.0, 1e300, "", "a", "0" * 64,
    "g" * 64, "A" * 64, "a/b", "..", "\0", "\ud800", "é", "x" * 5000, "2013-01-01", [], [[]], [None],
    ["a", "b"], [1, 2, 3], {}, {"": ""}, {"a": 1}, {"a": {"b": []}}, {"format": 2}, {"format": 99},
)  # fmt: skip
TEXTS = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"1",
    b'"a"',
    b"NaN",
    b"[" * 100_000,
    b"{}{}",
    b"\xff",
    b"1e999",
)


def damaged_bytes(raw: bytes, random: Random) -> bytes:
    """Return bytes with some of them changed, removed, repeated or inserted."""
    found = bytearray(raw)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        at = random.randrange(len(found) + 1)
        length = random.choice((1, 1, 2, 4, 32))
        match random.randrange(6):
            case 0 if at < len(found):
                found[at] ^= 1 << random.randrange(8)
            case 1 if at < len(found):
                found[at] = random.choice(TELLING)
            case 2:
                del found[at : at + length]
            case 3:
                found[at:at] = random.randbytes(length)
            case 4:
                found[at:at] = found[at : at + length]
            case _ if random.random() < 0.2:
                del found[at:]
    return bytes(found)


def damaged_json(raw: bytes, random: Random) -> bytes:
    """Return JSON with a value of another kind, a missing name, an extra item, or the like."""
    if random.random() < 0.03:
        return random.choice(TEXTS)
    value = json.loads(raw.decode("utf-8", "surrogatepass"))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        value = _changed(value, random)
    return _encoded(value)


def _encoded(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _changed(value: Any, random: Random) -> Any:  # noqa: PLR0911 - one for each kind of damage
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice(sorted(value))
        match random.randrange(8):
            case 0:
                return {key: item for key, item in value.items() if key != name}
            case 1:
                return {**value, random.choice(("", "x", "format", name + "x")): _other(random)}
            case 2:
                return {(key if key != name else "é"): item for key, item in value.items()}
            case _:
                return {**value, name: _changed(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        match random.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, value[at]]
            case 2:
                return value[::-1]
            case _:
                return [*value[:at], _changed(value[at], random), *value[at + 1 :]]
    return _near(value, random) if random.random() < 0.4 else _other(random)


def _near(value: Any, random: Random) -> Any:
    """Return another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + random.choice((-1, 1, -(2**40), 2**40, -2 * value))
        case str():
            at = random.randrange(len(value) + 1)
            return value[:at] + random.choice(("", "0", "é", "\ud800", "/", "\0")) + value[at + 1 :]
        case _:
            return value


def _other(random: Random) -> Any:
    nested: Any = random.choice(VALUES)
    if random.random() < 0.02:
        for _ in range(random.choice((5, 200, 900))):
            nested = [nested]
    return nested
