"""Settings whose text is elsewhere: in the environment, or what a command prints."""

import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from graveler.errors import BackendUnavailableError, InvalidInputError

_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATIENCE_S: Final = 30


def reveal(value: Any, what: str, environment: Callable[[str], str | None]) -> str:
    """Return the text of a setting.

    Args:
        value: A text, in which ``${NAME}`` stands for a variable and ``$${`` for ``${``; or
            ``{"command": …}``, a command line or a list of its words, for what it prints. It is
            run without a shell.
        what: Names the setting in errors; the text itself is never in them.
        environment: Returns a variable, or None.

    Raises:
        InvalidInputError: It is neither, or a variable is not set.
        BackendUnavailableError: The command failed, or took longer than 30 seconds.
    """
    if isinstance(value, str):
        return _filled(value, what, environment)
    if isinstance(value, Mapping) and set(value) == {"command"}:
        return _printed(value["command"], what)
    raise InvalidInputError(f'{what}: give a text, or {{command = "…"}} that prints it')


def _filled(text: str, what: str, environment: Callable[[str], str | None]) -> str:
    # Of a URI what stands before its last @ is user and password: there a value is encoded.
    start = text.find("://")
    end = text.rfind("@") if start >= 0 else -1

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        found = environment(name) if _NAME.fullmatch(name) else None
        if not found:
            raise InvalidInputError(
                f"{what}: the variable {name!r} is not set: set it, or write $${{ for ${{"
            )
        return quote(found, safe="") if start < match.start() < end else found

    return _VARIABLE.sub(value, text)


def _printed(command: Any, what: str) -> str:
    words = shlex.split(command) if isinstance(command, str) else command
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        raise InvalidInputError(f"{what}: command is a command line, or a list of its words")
    program = words[0]
    try:
        done = subprocess.run(  # noqa: S603 - that is what the setting asks for
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=_PATIENCE_S,
            check=False,
        )
        text = done.stdout.decode().strip("\r\n")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise BackendUnavailableError(
            f"{what}: the command {program!r} did not work: {type(error).__name__}"
        ) from None
    if done.returncode or not text:
        raise BackendUnavailableError(
            f"{what}: the command {program!r} ended with code {done.returncode} and printed "
            f"{'something' if text else 'nothing'}: run it by hand to see why"
        )
    return text
