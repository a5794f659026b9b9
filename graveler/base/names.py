"""The rules for names of repositories, branches, tags, paths, hours and runs."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePath

from graveler.base.arguments import pairs as read_pairs
from graveler.base.arguments import path_text, plain_prefix, text
from graveler.errors import InvalidInputError
from graveler.model import PATH_BYTES, REF_CHARACTERS, TIMES

_RUNS = "run-"
_OURS = "graveler."
_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_COMMIT_ID = re.compile(r"[0-9a-f]{64}")
_HOUR_FOLDER = re.compile(r"(\d{4})/(\d{2})/(\d{2})/(\d{2}):(\d{2})/?")
_NAMED_HOUR = re.compile(
    r"(?<!\d)(\d{4})[-/](\d{2})[-/](\d{2})(?:[-T_ /](\d{2})(?:[-:](\d{2}))?(?!\d))?(?!\d)"
)
_ODD_PART = frozenset({"", ".", ".."})
_NOT_SLUG = re.compile(r"[^A-Za-z0-9_.]+")


def check_repository(name: str) -> str:
    """Return `name` if it is a valid name of a repository."""
    if not _REPOSITORY.fullmatch(name):
        raise InvalidInputError(
            f"repository name {name!r}: use 3 to 63 of a-z, 0-9 and '-', "
            "starting with a letter or digit"
        )
    return name


def _check_ref(kind: str, name: str) -> str:
    if len(name) > REF_CHARACTERS or not _REF.fullmatch(name):
        raise InvalidInputError(
            f"{kind} name {name!r}: use up to {REF_CHARACTERS} of A-Z, a-z, 0-9, '_', '.' and "
            "'-', starting with a letter, digit or '_' ('/ ~ ^ @ :' belong to addresses)"
        )
    if _COMMIT_ID.fullmatch(name):
        raise InvalidInputError(f"{kind} name {name!r} reads like a commit id: choose another")
    return name


@lru_cache(maxsize=1024)  # the same names are checked in each operation
def check_branch(name: str) -> str:
    """Return `name` if it is a valid name of a branch, else raise InvalidInputError."""
    return _check_ref("branch", name)


def check_users_branch(name: str) -> str:
    """Return `name` if it is a valid name of a user's branch."""
    if is_of_run(check_branch(name)):
        raise InvalidInputError(
            f"branch name {name!r}: names that begin with {_RUNS!r} belong to the branches of runs: "
            "choose another"
        )
    return name


def is_of_run(branch: str) -> bool:
    """Return whether a branch with this name belongs to a run or a step."""
    return branch.startswith(_RUNS)


def check_tag(name: str) -> str:
    """Return `name` if it is a valid name of a tag, else raise InvalidInputError."""
    return _check_ref("tag", name)


def path_key(path: str) -> bytes:
    """Return the key of a path: its UTF-8 bytes."""
    try:
        key = path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"path {path!r} is not valid UTF-8 text: rename the file"
        ) from error
    if not 1 <= len(key) <= PATH_BYTES:
        raise InvalidInputError(
            f"path of {len(key)} bytes ({path[:80]!r}): give 1 to {PATH_BYTES} bytes"
        )
    if b"\0" in key:
        raise InvalidInputError(f"path {path!r} holds a NUL character: leave it out")
    return key


def path_keys(paths: Iterable[str | PurePath]) -> list[bytes]:
    """Return the keys of many paths. The errors are those of `path_key`.

    Paths are checked together, and one by one only if one of them is invalid.
    """
    listed = list(paths)
    with suppress(TypeError, UnicodeEncodeError):
        keys = list(map(str.encode, listed))  # type: ignore[arg-type]  # it refuses others
        sizes = set(map(len, keys)) or {1}
        if 1 <= min(sizes) <= max(sizes) <= PATH_BYTES and b"\0" not in b"".join(keys):
            return keys
    return [path_key(path_text(path, "path")) for path in listed]


def check_path(path: str) -> bytes:
    """Return the key of a path that will be written."""
    key = path_key(path)
    if not _ODD_PART.isdisjoint(path.split("/")):
        plain = "/".join(part for part in path.split("/") if part not in _ODD_PART)
        raise InvalidInputError(
            f"path {path!r}: a part of it is empty, '.' or '..', which no folder can hold"
            + (f"; write to {plain!r}" if plain else "")
        )
    return key


def check_prefix(what: str, prefix: str) -> None:
    """Refuse a prefix with which no path can begin, such as ``/folder/``."""
    text(prefix, f"{what}: prefix", empty=True)
    plain = plain_prefix(prefix.partition("*")[0])
    if plain != prefix:
        raise InvalidInputError(
            f"{what}: prefix {prefix!r}: no path begins so; give the beginning of paths in the "
            f"repository as it is, {plain!r}, or '' for all"
        )


def hour_folder(hour: datetime) -> str:
    """Return the folder of an hour in UTC: ``2013/01/01/05:00``."""
    time = hour.astimezone(UTC)
    return f"{time.year:04}/{time:%m/%d/%H:%M}"


def hour_text(moment: datetime) -> str:
    """Return a time in the form of commit metadata, in UTC: ``2013-01-01T05:00Z``."""
    time = moment.astimezone(UTC)
    return f"{time.year:04}-{time:%m-%dT%H:%MZ}"


def read_hour(text: str) -> datetime | None:
    """Return the time of a text in UTC, or None if the text is not a time."""
    folder = _HOUR_FOLDER.fullmatch(text)
    try:
        time = (
            datetime(*map(int, folder.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # five numbers
            if folder
            else datetime.fromisoformat(text)
        )
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def named_hour(key: str) -> datetime | None:
    """Return the time in the key of a run, as in ``flights 2013-01-01T05:00Z``, or None.

    It is read as UTC. A day stands for its first minute.
    """
    found = _NAMED_HOUR.search(key)
    if found is None:
        return None
    with suppress(ValueError):
        time = datetime(*(int(part or 0) for part in found.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]  # five numbers
        return time if TIMES[0] <= time <= TIMES[1] else None
    return None


def check_pairs(what: str, pairs: Mapping[str, str]) -> None:
    """Refuse metadata that is not text. A number would be read back as another type."""
    for name, value in pairs.items():
        if not (isinstance(name, str) and isinstance(value, str)):  # type: ignore[redundant-expr]  # callers without types
            raise InvalidInputError(
                f"{what}: metadata {name!r}: {value!r}: names and values are text"
            )


def check_caller_pairs(what: str, pairs: Mapping[str, str] | None, *ours: str) -> dict[str, str]:
    """Return the caller's metadata for a commit or a run. Names of graveler are refused.

    Names such as ``graveler.run`` and ``graveler.published`` record the kind of a commit.
    """
    checked = read_pairs(pairs, "metadata")
    for start in (_OURS, *ours):
        if taken := sorted(name for name in checked if name.startswith(start)):
            raise InvalidInputError(
                f"{what}: metadata {taken[0]!r}: names that begin with {start!r} are graveler's own: "
                "choose another"
            )
    return checked


def _slug(text: str, limit: int) -> str:
    return _NOT_SLUG.sub("-", text).strip("-.")[:limit].strip("-.") or "x"


@lru_cache(maxsize=256)
def run_branch(key: str) -> str:
    """Return the name of a run's branch: ``run-<slug of its key>-<8 hex of the key's hash>``."""
    digest = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_RUNS}{_slug(key, 80)}-{digest[:8]}"


@lru_cache(maxsize=1 << 14)  # a list of hours reads the names of all runs
def hour_of_run(branch: str) -> datetime | None:
    """Return the time in the key of a run by its branch, which has the first 80 characters of the key."""
    return named_hour(branch.rpartition("-")[0])


def step_branch(run: str, step: str) -> str:
    """Return the name of a step's branch beside its run's branch."""
    digest = sha256(step.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{run}.{_slug(step, 60)}-{digest[:8]}"
