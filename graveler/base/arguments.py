"""Checks of arguments. Only the public interface calls them.

Each function takes a value and the name of its argument, and returns the value in its internal
form. An invalid value raises InvalidInputError, which names the argument, the value and what is
expected.
"""

import json
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from errno import ENAMETOOLONG
from os import PathLike, fspath
from os.path import expanduser
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar

from graveler.errors import InvalidInputError
from graveler.model import (
    ADDRESS_BYTES,
    CHECKSUM_BYTES,
    COMMITTER_BYTES,
    CONTENT_TYPE_BYTES,
    LONGEST_DURATION,
    MESSAGE_BYTES,
    METADATA_BYTES,
    METADATA_PAIRS,
    RUN_KEY_BYTES,
    TIMES,
    Commit,
    Entry,
)

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([dhms])|0")
_DIGITS = re.compile(r"-?[0-9]{1,20}")
_ODD_PART = re.compile(r"(?:^|(?<=/))\.{0,2}/")
_LARGEST = 2**63 - 1
_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = 80
T = TypeVar("T")


class Home(Protocol):
    """The repository of a ref."""

    @property
    def uid(self) -> str:
        """An id that is unique to the repository."""

    @property
    def name(self) -> str:
        """The name of the repository."""

    @property
    def location(self) -> str:
        """The location of its lake."""


class RefLike(ABC):
    """The base class of objects that are accepted as a ref.

    Attributes:
        repository: The repository of the ref.
    """

    repository: Home

    @property
    @abstractmethod
    def expression(self) -> str:
        """The ref expression."""


class BranchLike(RefLike):
    """The base class of objects that are accepted as a branch. The expression is the name."""


PathText = str | PurePath
Duration = timedelta | str
Moment = datetime | str


def _wrong(name: str, value: Any, expected: str) -> InvalidInputError:
    try:
        shown = _brief.repr(value)
    except Exception:  # noqa: BLE001 - a caller's __repr__ may raise anything
        shown = type(value).__name__
    return InvalidInputError(f"{name}={shown}: give {expected}")


def _json_bytes(value: Any) -> int:
    """Return the size of a value in a record."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def text(
    value: Any, name: str, *, empty: bool = False, most: int | None = None, errors: str = "strict"
) -> str:
    """Return a text that can be encoded in UTF-8.

    Args:
        errors: ``surrogateescape`` also allows names of files that are not UTF-8.
    """
    if not isinstance(value, str):
        raise _wrong(name, value, "text")
    if not value.strip() and not empty:
        raise _wrong(name, value, "a text that is not empty")
    try:
        value.encode(errors=errors)
    except UnicodeEncodeError:
        raise _wrong(name, value, "text that can be encoded in UTF-8") from None
    # a character takes 6 bytes at most, so short texts need not be counted
    if most is not None and 6 * len(value) > most and (size := _json_bytes(value) - 2) > most:
        raise _wrong(name, value, f"at most {most} bytes, not {size}")
    return value


def optional(check: Any, value: Any, name: str, **options: Any) -> Any:
    """Return None for None, and otherwise the result of `check`."""
    return None if value is None else check(value, name, **options)


def ref_text(value: Any, name: str, *, within: Home | None = None) -> str:
    """Return the expression of a ref: text, a commit, a ref or a branch.

    Args:
        within: The repository in which the expression is looked up. Objects of other repositories
            are refused.
    """
    if isinstance(value, Commit):
        return value.id
    if isinstance(value, RefLike):
        return _expression(value, name, within)
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "a ref: text, a Commit, a Ref or a Branch")
    return text(value, name)


def branch_text(value: Any, name: str, *, within: Home | None = None) -> str:
    """Return the name of a branch: text or a branch. `within` is as for `ref_text`."""
    if isinstance(value, BranchLike):
        return _expression(value, name, within)
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "the name of a branch, or a Branch")
    return text(value, name)


def _expression(value: RefLike, name: str, within: Home | None) -> str:
    expression = value.expression
    if within is not None and value.repository.uid != within.uid:
        other = value.repository
        raise _wrong(
            name,
            value,
            f"what is of repository {within.name!r} of {within.location}, or text; this is of repository "
            f"{other.name!r} of {other.location}",
        )
    return expression


def path_text(value: Any, name: str) -> str:
    """Return a path in a tree: text, or a path object, whose parts are joined with slashes."""
    if isinstance(value, PurePath):
        value = value.as_posix()
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "a path: text or a PurePath, not empty")
    return text(value, name, empty=True)


def prefix_text(value: Any, name: str) -> str:
    """Return the beginning of paths: text, or a path object, which means its folder.

    A text with which no path can begin is refused, because its listing would silently be empty.
    """
    if isinstance(value, PurePath):
        value = f"{value.as_posix()}/" if value.parts else ""
    if not isinstance(value, str):
        raise _wrong(name, value, "the beginning of paths: text or a PurePath")
    plain = plain_prefix(text(value, name, empty=True))
    if plain != value:
        raise _wrong(name, value, f"{plain!r}: no path has a part that is empty, '.' or '..'")
    return value


def plain_prefix(prefix: str) -> str:
    """Return the beginning of paths without invalid parts: empty, ``.`` or ``..``."""
    return _ODD_PART.sub("", prefix)


def expand_home(value: str | PathLike[str]) -> Path:
    """Return a path on this machine. ``~`` and ``~user`` at its beginning are home folders.

    ``~`` with the name of an unknown user stays unchanged, as in a shell.
    """
    path = Path(value)
    try:
        path = Path(expanduser(value))  # noqa: PTH111 - pathlib's own raises RuntimeError for that name
        path.lstat()
    except ValueError as error:  # a NUL, or a lone surrogate
        raise InvalidInputError(f"{_brief.repr(value)} cannot be a path: {error}") from None
    except OSError as error:
        if error.errno == ENAMETOOLONG:
            raise InvalidInputError(
                f"{_brief.repr(str(value))}: {error.strerror}; give a shorter path"
            ) from None
    return path


def file_path(value: Any, name: str) -> Path:
    """Return the path of a file on this machine, as `expand_home` reads it."""
    if isinstance(value, str | PathLike) and isinstance(fspath(value), str) and str(value):
        try:
            return expand_home(value)
        except InvalidInputError as error:
            raise InvalidInputError(f"{name}={error}") from None
    raise _wrong(name, value, "the path of a file: text or a Path that the system can hold")


def function(value: Any, name: str) -> Any:
    """Return a function."""
    if not callable(value):
        raise _wrong(name, value, "a function")
    return value


def flag(value: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise _wrong(name, value, "True or False")
    return value


def count(value: Any, name: str, *, least: int = 0) -> int:
    """Return a whole number from `least` to 2**63 - 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
        raise _wrong(name, value, f"a whole number from {least} on")
    return value


def choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return one of the allowed words."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise _wrong(name, value, f"one of {', '.join(known)}")
    return value


def read_duration(given: str) -> timedelta | None:
    """Return the length of time in a text (``7d``, ``36h``, ``90m``, ``30s``), or None."""
    match = _LENGTH.fullmatch(given)
    if match is None:
        return None
    seconds = 0.0 if match[1] is None else float(match[1]) * _SECONDS[match[2]]
    return timedelta(seconds=min(seconds, LONGEST_DURATION.total_seconds() + 1))


def whole_number(cell: Any) -> int:
    """Return the whole number of a cell of a table: a number, or text of ASCII digits."""
    if isinstance(cell, str) and _DIGITS.fullmatch(cell) is None:
        raise ValueError(f"{cell!r} is not a whole number")
    try:
        number = int(cell)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{cell!r} is not a whole number") from error
    if isinstance(cell, bool) or (number != cell and not isinstance(cell, str)):
        raise ValueError(f"{cell!r} is not a whole number")
    return number


def duration(value: Any, name: str, *, zero: bool = True) -> timedelta:
    """Return a length of time: a timedelta, or text as in ``7d``, ``36h``, ``90m``, ``30s``."""
    length = read_duration(value) if isinstance(value, str) else value
    if not isinstance(length, timedelta) or not timedelta(0) <= length <= LONGEST_DURATION:
        most = f"at most {LONGEST_DURATION.days} days"
        raise _wrong(name, value, f"a timedelta, or text as in '7d', '36h' or '90m'; {most}")
    if not zero and not length:
        raise _wrong(name, value, "a length of time above 0")
    return length


def moment(value: Any, name: str) -> datetime:
    """Return a time: a datetime, or text in ISO 8601. Without a zone it is UTC."""
    time = value
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
        if isinstance(time, datetime):
            time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
            if TIMES[0] <= time <= TIMES[1]:
                return time
    except (ValueError, OverflowError):
        pass
    raise _wrong(name, value, "a datetime, or text in ISO 8601 as in 2013-01-01T05:00Z")


def pairs(value: Any, name: str) -> dict[str, str]:
    """Return metadata: names and values are text. None means no metadata."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "a mapping of text to text, as in {'source': 'bts'}")
    plain = dict(value)
    if not plain:
        return plain
    for key, item in plain.items():
        if not (isinstance(key, str) and isinstance(item, str)):
            raise _wrong(f"{name}[{_brief.repr(key)}]", item, "text for names and values")
        text(key, name, empty=True)
        text(item, f"{name}[{key!r}]", empty=True)
    size = _json_bytes(plain)
    if len(plain) > METADATA_PAIRS or size > METADATA_BYTES:
        raise InvalidInputError(
            f"{name} of {len(plain)} pairs and {size} bytes: give at most {METADATA_PAIRS} pairs "
            f"of {METADATA_BYTES} bytes of JSON in all"
        )
    return plain


def texts(value: Any, name: str, **options: Any) -> tuple[str, ...]:
    """Return several texts, each checked with the options of `text`."""
    values = several(value, name, "texts")
    return tuple(text(item, f"{name}[{at}]", **options) for at, item in enumerate(values))


def excluded(value: Any) -> tuple[str, ...]:
    """Return the names and patterns of the argument ``exclude``. Names need not be UTF-8."""
    return texts(value, "exclude", errors="surrogateescape")


def instance(value: Any, name: str, kind: type[T] | tuple[type[T], ...], expected: str) -> T:
    """Return a value of the type, or of one of the types."""
    if not isinstance(value, kind):
        raise _wrong(name, value, expected)
    return value


def several(value: Any, name: str, expected: str) -> Iterable[Any]:
    """Return an iterable that is not text. Its values are not checked."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _wrong(name, value, f"several {expected}, as in a list")
    return value


def each(value: Any, name: str, kind: type[T] | tuple[type[T], ...], expected: str) -> Iterator[T]:
    """Return the values of an iterable, each checked when it is reached."""
    values = several(value, name, f"of {expected}")
    return (instance(item, f"{name}[{at}]", kind, expected) for at, item in enumerate(values))


def paths_of(value: Any, name: str) -> Iterator[str]:
    """Return the paths of an iterable, each checked when it is reached."""
    values = several(value, name, "paths")
    return (path_text(item, f"{name}[{at}]") for at, item in enumerate(values))


def check_entry(entry: Entry) -> None:
    """Refuse an entry with a field of a wrong type or above its limit."""
    try:
        text(entry.address, "address", most=ADDRESS_BYTES)
        count(entry.size, "size")
        for name in ("checksum", "version"):
            text(getattr(entry, name), name, empty=True, most=CHECKSUM_BYTES)
        media_type(entry.content_type)
        flag(entry.computed, "computed")
        if entry.mtime is not None:
            moment(instance(entry.mtime, "mtime", datetime, "a datetime with its zone"), "mtime")
            if entry.mtime.tzinfo is None:
                raise _wrong("mtime", entry.mtime, "a datetime with its zone")
        pairs(entry.metadata, "metadata")
    except InvalidInputError as error:
        raise InvalidInputError(f"entry {_brief.repr(entry.path)}: {error}") from None


def commit_texts(message: Any, committer: Any) -> None:
    """Refuse a commit's message or committer that is invalid or too long."""
    if message is not None:
        text(message, "message", empty=True, most=MESSAGE_BYTES)
    text(committer, "committer", empty=True, most=COMMITTER_BYTES)


def media_type(value: Any) -> str:
    """Return a content type."""
    return text(value, "content_type", empty=True, most=CONTENT_TYPE_BYTES)


def run_key(value: Any) -> str:
    """Return the key of a run."""
    if not isinstance(value, str) or not value.strip():
        kind = "an empty text" if isinstance(value, str) else type(value).__name__
        raise InvalidInputError(f"key: a run key must be a non-empty text, not {kind}")
    return text(value, "key", most=RUN_KEY_BYTES)


def run_or_commit(value: Any) -> str:
    """Return the key of a run, or the id of a commit."""
    if isinstance(value, Commit):
        return value.id
    return text(value, "key_or_commit", most=RUN_KEY_BYTES)


def reason_text(value: Any) -> str:
    """Return the reason for which a run is set aside. A long reason is cut off."""
    reason: str = instance(value, "reason", str, "text")
    return reason if len(reason) <= MESSAGE_BYTES // 6 else f"{reason[: MESSAGE_BYTES // 6]}…"


def hour_name(value: Any) -> Moment:
    """Return the name of an hour: a datetime, or text."""
    return value if isinstance(value, datetime) else text(value, "hour")


def storage_text(value: Any) -> str:
    """Return the storage of a repository: a URI, or a folder."""
    return text(str(value) if isinstance(value, PurePath) else value, "storage")


def real(value: Any, name: str) -> float:
    """Return a number of days, from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        raise _wrong(name, value, "a number from 0 on")
    return value
