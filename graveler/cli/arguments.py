"""The arguments of the command line: addresses, pairs, durations, rates, shared options."""

import re
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from graveler.base import arguments
from graveler.cli.failure import UsageError
from graveler.errors import GravelerError

if TYPE_CHECKING:
    from graveler.gates import Gate
    from graveler.repository.strategies import Resolver, Strategy

_PARTS = re.compile(r"([^:{]*@\{[^{}]*\}[^:]*|[^:]*):?(.*)", re.DOTALL)
_STRATEGIES = ("source-wins", "dest-wins", "conflict")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BYTES = {
    "": 1,
    "b": 1,
    **{unit: 1000**power for power, unit in enumerate(("kb", "mb", "gb"), 1)},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib"), 1)},
}
_DIGITS = re.compile(r"[0-9]{1,19}")
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?((?:[KMG]i?)?B|)(?:/s)?", re.IGNORECASE)

MetaOption = Annotated[list[str] | None, "(NAME=VALUE): A metadata pair; repeat for more."]

LimitOption = Annotated[int | None, "(-n N): List at most N.", {"min": 0}]

StrategyOption = Annotated[
    list[str] | None,
    f"([GLOB=]{'|'.join(_STRATEGIES)}): Side to use for conflicting paths: the source's or the "
    "branch's. With a glob, as in tables/**=source-wins, for these paths only; repeat for more, the "
    "first match applies.",
]


class Address(NamedTuple):
    """A place in a tree."""

    ref: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Split at the first colon outside the braces of a time; the path may have more colons."""
        return cls(*_PARTS.findall(text)[0])

    @classmethod
    def of_file(cls, text: str) -> "Address":
        """Return the address of a file."""
        address = cls.parse(text)
        if not address.path:
            raise UsageError(
                f"{text!r} names no path: give REF:PATH, as in main:input/a.csv, or :PATH on the "
                "default branch"
            )
        return address


def split_pair(option: str, text: str) -> tuple[str, str]:
    """Return the name and the value of ``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise UsageError(f"{option} {text!r}: give NAME=VALUE")
    return name, value


def read_pairs(texts: Iterable[str] | None) -> dict[str, str]:
    """Return the pairs of ``--meta``; a repeated name has its last value."""
    return dict(split_pair("--meta", text) for text in texts or ())


def read_strategy(texts: Iterable[str] | None) -> "Strategy | None":
    """Return the strategy; None if none is given."""
    rules: dict[str, str | Resolver | None] = {}
    for text in texts or ():
        pattern, separator, word = text.rpartition("=")
        if word not in _STRATEGIES or bool(separator) != bool(pattern):
            raise UsageError(
                f"--strategy {text!r}: give one of {', '.join(_STRATEGIES)}, or GLOB={_STRATEGIES[0]} "
                "for the paths that match GLOB"
            )
        rules.setdefault(pattern or "**", word)
    return rules or None


def read_duration(option: str, text: str) -> timedelta:
    """Return the length of time."""
    duration = arguments.read_duration(text)
    if duration is None:
        raise UsageError(f"{option} {text!r}: give a number and d, h, m or s, as in 7d or 36h")
    return duration


def read_rate(option: str, text: str) -> float:
    """Return bytes per second."""
    rate = _bytes(text)
    if not rate:
        raise UsageError(f"{option} {text!r}: give bytes per second, as in 50MB/s or 200MiB/s")
    return rate


def read_number(option: str, text: str) -> int:
    """Return a whole number; a unit of bytes may follow it."""
    if _DIGITS.fullmatch(text):
        return int(text)  # without the rounding of large numbers
    number = None if text.endswith("/s") else _bytes(text)
    if number is None or number != int(number):
        raise UsageError(f"{option} {text!r}: give a whole number, as in 50000 or 4MiB")
    return int(number)


def _bytes(text: str) -> float | None:
    match = _RATE.fullmatch(text)
    return None if match is None else float(match[1]) * _BYTES[match[2].lower()]


def duration_text(seconds: float) -> str:
    """Return a length of time in the largest unit that divides it."""
    for unit, size in _SECONDS.items():
        if seconds and not seconds % size:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def load_gates(names: list[str] | None) -> "list[Gate]":
    """Import the named gates; modules of the working folder can be imported too."""
    from graveler.gates.named import named

    gates = []
    for name in names or ():
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            gates.append(named(name).made())
        except (GravelerError, ImportError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(
                f"--gate {name!r}: give a built-in check, or MODULE:NAME of a gate that can be "
                f"imported ({error})"
            ) from None
    return gates
