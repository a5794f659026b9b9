"""Privacy: secret values, URIs without secrets, files that only this user may read."""

import os
import re
import shlex
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graveler.errors import BackendUnavailableError, InvalidInputError, PermissionDeniedError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
GROUP_READS = 0o640
_GROUP_WRITES = 0o660
_SHARED = stat.S_ISGID | stat.S_IRWXG


def make_folder(folder: Path) -> None:
    """Create a folder and those above it. Existing folders are unchanged."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
        follow_group(parent)


def create_file(file: Path) -> None:
    """Create an empty file. An existing file is unchanged."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
        follow_group(file)


def open_file(file: Path) -> int:
    """Return the descriptor of a file, for reading and writing. It is created if it is missing."""
    create_file(file)
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)


def is_shared(folder: Path) -> bool:
    """Return whether a group shares a folder: it has all rights, and its files get the group."""
    return folder.stat().st_mode & _SHARED == _SHARED


def follow_group(place: Path) -> None:
    """Give a new file or folder to the group that shares the folder in which it is."""
    if is_shared(place.parent):
        _share(place, place.parent.stat().st_gid)


def share_folder(folder: Path, spared: str) -> None:
    """Share a folder, and all that is in it, with its group; only once.

    Args:
        spared: Name of the files that the group may only read.
    """
    make_folder(folder)
    if is_shared(folder):
        return
    group = folder.stat().st_gid
    try:
        for place in (*folder.rglob("*"), folder):
            if not place.is_symlink():
                _share(place, group, writes=place.name != spared)
    except PermissionError as error:
        raise PermissionDeniedError(
            f"{error.filename} has another owner, who opens the lake once to share it, or runs: chmod -R "
            f"g+rwX {folder} && find {folder} -type d -exec chmod g+s {{}} +"
        ) from None


def _share(place: Path, group: int, *, writes: bool = True) -> None:
    status = place.stat()
    if status.st_gid != group:
        os.chown(place, -1, group)
    if stat.S_ISDIR(status.st_mode):
        place.chmod(PRIVATE_FOLDER | _SHARED)
    else:
        place.chmod(_GROUP_WRITES if writes else GROUP_READS)


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{0,3})?(.*)", re.DOTALL)
_LOCAL = ("file", "sqlite", "rocksdb", "mem")
_HIDDEN = "***"


def is_uri(text: str) -> bool:
    """Return whether a text is a URI (or a mistyped one, with one slash) and not a path."""
    return _URI.match(text) is not None


def shown_uri(uri: str) -> str:
    """Return a URI for messages and logs: scheme, host and path, without secrets.

    The parts before an ``@`` and after a ``?`` or ``#`` may contain secrets and are hidden. If the
    parts are ambiguous, as with a password that is not percent-encoded, only the scheme is shown.
    Paths of local schemes are shown completely.
    """
    if "://" not in uri and "=" in uri:
        return _HIDDEN  # the parameters of a connection
    scheme, rest = _PARTS.fullmatch(uri).groups(default="")  # type: ignore[union-attr]  # matches any text
    if scheme.partition(":")[0].lower() in _LOCAL:
        return uri
    place, query = re.fullmatch(r"([^?#]*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]  # matches any text
    if "@" in query:
        return scheme + _HIDDEN
    user, at, host = place.rpartition("@")
    hidden = f"{_HIDDEN}@" if user or at else ""
    return f"{scheme}{hidden}{host}" + (f"?{_HIDDEN}" if query else "")


def may_write(place: Path) -> bool:
    """Return whether a file and its folder, or a folder, are writable.

    A missing file or folder counts as writable if the nearest folder above is writable.
    """
    nearest = place
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    effective = os.access in os.supports_effective_ids
    checked = (nearest, place.parent) if nearest.is_file() else (nearest,)
    return all(os.access(path, os.W_OK, effective_ids=effective) for path in checked)


_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([^}]*)\})?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATIENCE_S = 30


def reveal(value: Any, what: str, environment: Callable[[str], str | None]) -> str:
    """Return the text of a setting.

    Args:
        value: A text, in which ``${NAME}`` is replaced by a variable and ``$${`` by ``${``, or
            ``{"command": …}`` with a command line or a list of its words. The text is then the
            output of the command, which runs without a shell.
        what: The name of the setting in errors, which never contain the text.
        environment: Returns a variable, or None.
    """
    if isinstance(value, str):
        return _filled(value, what, environment)
    if isinstance(value, Mapping) and set(value) == {"command"}:
        return _printed(value["command"], what)
    raise InvalidInputError(f'{what}: give a text, or {{command = "…"}} that prints it')


def _filled(text: str, what: str, environment: Callable[[str], str | None]) -> str:
    # the part of a URI before its last @ is user and password: a value there is percent-encoded
    start = text.find("://")
    end = text.rfind("@") if start >= 0 else -1

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if match[0] == "$${":
            return "${"
        if name is None:
            raise InvalidInputError(f"{what}: ${{ has no }}: close it, or write $${{ for ${{")
        setting = environment(name) if _NAME.fullmatch(name) else None
        if not setting:
            raise InvalidInputError(
                f"{what}: the variable {name!r} is not set: set it, or write $${{ for ${{"
            )
        return quote(setting, safe="") if start < match.start() < end else setting

    return _VARIABLE.sub(value, text)


def _printed(command: Any, what: str) -> str:
    import subprocess

    words = shlex.split(command) if isinstance(command, str) else command
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        raise InvalidInputError(f"{what}: command is a command line, or a list of its words")
    program = words[0]
    try:
        done = subprocess.run(
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
