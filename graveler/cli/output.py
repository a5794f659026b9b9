"""Output to a terminal, a pipe or a file: lines for people, JSON for programs."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

import typer

from graveler.config import environment
from graveler.privacy import printable

_KIB: Final = 1024
_STYLES: Final = re.compile(r"(\x1b\[(?:[0-2]|3[0-7])m)")
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


class ReaderGoneError(Exception):
    """The reader closed the output (``| head``): stop without a message."""


def to_json(value: Any) -> str:
    """Return one line of JSON in ASCII, which every terminal and pipe preserves."""
    return json.dumps(value, separators=(", ", ": "))


def visible(text: str, *, styled: bool = False) -> str:
    """Return a line as it is written; `styled`: with the colours of `Output.style`, nothing else."""
    if not styled:
        return printable(text)
    pieces = _STYLES.split(text)
    return "".join(piece if _STYLES.fullmatch(piece) else printable(piece) for piece in pieces)


def complain(*lines: str) -> None:
    """Write lines to the standard error stream. Control characters become visible."""
    sys.stderr.writelines(f"{visible(line, styled=_wants_color(sys.stderr))}\n" for line in lines)
    sys.stderr.flush()


def size_text(size: int) -> str:
    """Return a number of bytes in the largest fitting unit."""
    if size < _KIB:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / _KIB**power:.1f} {_UNITS[power - 1]}"


class Output:
    """Writes the output of a verb.

    Attributes:
        as_json: Whether the reader is a program.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        for stream in (sys.stdout, sys.stderr):
            # a path that the terminal cannot show must not end a listing
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        self._color = _wants_color(sys.stdout)

    def style(self, text: str, color: str = "", *, bold: bool = False, dim: bool = False) -> str:
        """Return the text in a colour if the reader is a terminal."""
        if not self._color:
            return text
        return typer.style(text, fg=color or None, bold=bold or None, dim=dim or None)

    def line(self, text: str = "") -> None:
        """Write a line. Control characters become visible.

        Raises:
            ReaderGoneError: The reader has closed the output.
        """
        with _reader():
            sys.stdout.write(visible(text, styled=self._color) + "\n")

    def show(self, value: Mapping[str, Any], *lines: str) -> None:
        """Write `value` as a line of JSON if ``--json`` is given, else the lines."""
        if self.as_json:
            self.line(to_json(value))
            return
        for line in lines:
            self.line(line)

    def data(self, piece: bytes) -> None:
        """Write bytes unchanged."""
        with _reader():
            sys.stdout.flush()
            sys.stdout.buffer.write(piece)

    def flush(self) -> None:
        """Flush the buffer."""
        with _reader():
            sys.stdout.flush()

    def abandon(self) -> None:
        """Discard the buffer, so that the interpreter exits without an error."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def _wants_color(stream: TextIO) -> bool:
    return stream.isatty() and not environment("NO_COLOR")


@contextmanager
def _reader() -> Iterator[None]:
    """Raise ReaderGoneError if the reader has closed the output."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
