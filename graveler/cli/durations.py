"""``7d``, ``36h``, ``90m``, ``30s``, ``50MB/s``: lengths of time and rates on the command line."""

import re
from datetime import timedelta
from typing import Final

from graveler import arguments
from graveler.cli.failure import UsageError

__all__ = ["duration_text", "read_duration", "read_rate"]

_SECONDS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BYTES: Final = {
    "": 1,
    "b": 1,
    **{unit: 1000**power for power, unit in enumerate(("kb", "mb", "gb"), 1)},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib"), 1)},
}
_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?((?:[KMG]i?)?B|)(?:/s)?", re.IGNORECASE)


def read_duration(option: str, text: str) -> timedelta:
    """Return the length of time.

    Raises:
        UsageError: It is none.
    """
    found = arguments.read_duration(text)
    if found is None:
        raise UsageError(f"{option} {text!r}: give a number and d, h, m or s, as in 7d or 36h")
    return found


def read_rate(option: str, text: str) -> float:
    """Return bytes per second.

    Raises:
        UsageError: It is no rate.
    """
    match = _RATE.fullmatch(text)
    rate = float(match[1]) * _BYTES[match[2].lower()] if match is not None else 0.0
    if not rate:
        raise UsageError(f"{option} {text!r}: give bytes per second, as in 50MB/s or 200MiB/s")
    return rate


def duration_text(seconds: float) -> str:
    """Return a length of time as people read it, in the largest unit that divides it."""
    for unit, size in _SECONDS.items():
        if seconds and not seconds % size:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
