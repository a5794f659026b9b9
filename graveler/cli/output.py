"""Output to a terminal, a pipe or a file: lines for people, JSON for programs."""

import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TextIO

import typer

from graveler.config import environment
from graveler.display import printable
from graveler.errors import InvalidInputError

_OURS = f"\x1b{secrets.token_hex(8)}"
"""Begins a style of this process. No stored text can have it."""
_DAY = 86_400
_AGES = {
    "second": (1, 90),
    "minute": (60, 90 * 60),
    "hour": (3_600, 36 * 3_600),
    "day": (_DAY, 14 * _DAY),
    "week": (7 * _DAY, 70 * _DAY),
    "month": (30 * _DAY, 365 * _DAY),
    "year": (365 * _DAY, float("inf")),
}
"""Units of an age in seconds, and the age from which a larger unit is used."""


SIGNS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}
"""The sign and the colour of each kind of change."""


class ReaderGoneError(Exception):
    """The reader closed the output (``| head``): stop without a message."""


def to_json(value: Any) -> str:
    """Return one line of JSON in ASCII, which every terminal and pipe preserves."""
    return json.dumps(value, separators=(", ", ": "))


def styled(text: str, color: str, *, bold: bool = False, dim: bool = False) -> str:
    """Return the text in a style, which only `visible` turns into one of the terminal."""
    shown = typer.style(text, fg=color or None, bold=bold or None, dim=dim or None)
    return shown.replace("\x1b", _OURS) if text.isprintable() else text


def visible(text: str) -> str:
    """Return a line as it is written: with styles, and control characters that can be seen."""
    first, *rest = text.split(_OURS)
    codes = (piece.partition("m") for piece in rest)
    return printable(first) + "".join(f"\x1b{code}m{printable(after)}" for code, _, after in codes)


def complain(*lines: str) -> None:
    """Write lines to the standard error stream. Control characters become visible."""
    sys.stderr.writelines(f"{visible(line)}\n" for line in lines)
    sys.stderr.flush()


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1,234 files``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def age_text(seconds: float) -> str:
    """Return how long ago something was, in words."""
    if seconds < 0:
        return "in the future"
    unit, size = next((unit, size) for unit, (size, end) in _AGES.items() if seconds < end)
    return f"{counted(int(seconds // size), unit)} ago"


def field_lines(fields: Iterable[tuple[str, object]], width: int = 9) -> list[str]:
    """Return a line for each name and value."""
    return [f"{name:{width}}  {value}" for name, value in fields]


class Output:
    """Writes the output of a verb."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        for stream in (sys.stdout, sys.stderr):
            # a path that the terminal cannot show must not end a listing
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self.terminal = sys.stdout.isatty() and not as_json
        """Whether a person reads the lines as they come."""
        self._color = _wants_color(sys.stdout)

    def time(self, when: datetime, now: datetime) -> str:
        """Return how long ago `when` was, or the time if the reader is no terminal."""
        if not self.terminal:
            return f"{when:%Y-%m-%d %H:%M:%S}"
        return age_text((now - when).total_seconds())

    def style(self, text: str, color: str = "", *, bold: bool = False, dim: bool = False) -> str:
        """Return the text in a colour if the reader is a terminal."""
        return styled(text, color, bold=bold, dim=dim) if self._color else text

    def line(self, text: str = "") -> None:
        """Write a line. Control characters become visible."""
        with _reader():
            sys.stdout.write(visible(text) + "\n")

    def show(self, value: Mapping[str, Any], *lines: str) -> None:
        """Write `value` as a line of JSON if ``--json`` is given, else the lines."""
        if self.as_json:
            self.line(to_json(value))
        self.tell(*lines)

    def tell(self, *lines: str) -> None:
        """Write lines that only people read."""
        for line in () if self.as_json else lines:
            self.line(line)

    def confirm(self, question: str) -> bool:
        """Ask at a terminal. Without one, or with ``--json``, the answer is no."""
        asks = not self.as_json and sys.stdin is not None and sys.stdin.isatty()
        return asks and typer.confirm(printable(question), err=True)

    def data(self, piece: bytes) -> None:
        """Write bytes unchanged."""
        with _reader():
            sys.stdout.flush()
            sys.stdout.buffer.write(piece)

    def flush(self) -> None:
        """Flush the buffer."""
        with _reader():
            sys.stdout.flush()


def _wants_color(stream: TextIO) -> bool:
    return stream.isatty() and not environment("NO_COLOR")


def _abandon() -> None:
    """Discard the buffer, so that the interpreter exits without an error."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def _reader() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        _abandon()
        raise ReaderGoneError from error
    except OSError as error:
        _abandon()
        raise InvalidInputError(
            f"cannot write to the standard output: {error.strerror}; the rest of the output is lost"
        ) from error
