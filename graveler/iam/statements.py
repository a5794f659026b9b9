"""Statements of policies: ``allow read,write on flights@dev:tables/*``.

The resource is ``repository[@ref][:path]``. Names of repositories and refs may have ``*`` and ``?``,
and ``*`` alone stands for all. Paths are those of `graveler.base.globs`, but a last part ``*`` stands for
all that is below, as ``**`` does. A path that is equal to the text of the pattern matches it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from graveler.base import globs
from graveler.base.records import TEXT, FieldType, Unfit, array
from graveler.errors import InvalidInputError

ACTIONS = ("read", "write", "admin", "keep:read", "keep:write", "keep:manage")
"""What a policy allows or denies."""

_ALL = "*"
_BELOW = "/**"
_MOST = 64
_STATEMENT = re.compile(r"(?:(allow|deny) )?([^ ]+) on (.+)", re.DOTALL)
_RESOURCE = re.compile(
    r"(?P<repository>[a-z0-9*?-]{1,63})(?:@(?P<ref>[A-Za-z0-9_.*?-]+))?(?::(?P<path>.+))?",
    re.DOTALL,
)
_ODD_PARTS = frozenset({"", ".", ".."})


class Target(NamedTuple):
    """What an operation works on.

    Attributes:
        repository: Its name; "" for all.
        ref: The branch or tag; "" for all, and for a commit, which any of them may have.
        path: A file; ``folder/`` for all that is below it, and "" for all of the ref.
    """

    repository: str = ""
    ref: str = ""
    path: str = ""

    def __str__(self) -> str:
        tree = not self.path or self.path.endswith("/")
        path = f"{self.path}*" if tree else self.path
        return f"{self.repository or _ALL}@{self.ref or _ALL}:{path}"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a policy, or a scope of a token, which only allows.

    Attributes:
        text: The statement as it was given.
    """

    text: str
    allows: bool
    actions: frozenset[str]
    repository: str
    ref: str
    path: str

    def __str__(self) -> str:
        return self.text

    def covers(self, action: str, target: Target) -> bool:
        """Return whether the statement is about all of a target."""
        return (
            action in self.actions
            and _covers_name(self.repository, target.repository)
            and _covers_name(self.ref, target.ref)
            and _covers_path(self.path, target.path)
        )

    def touches(self, action: str, target: Target) -> bool:
        """Return whether the statement may be about a part of a target."""
        return (
            action in self.actions
            and (not target.repository or fnmatchcase(target.repository, self.repository))
            and (not target.ref or fnmatchcase(target.ref, self.ref))
            and _touches_path(self.path, target.path)
        )


def parse(text: str, *, scope: bool = False) -> Statement:
    """Return the statement of a text.

    Args:
        scope: Whether it is the scope of a token, as in ``read on flights``.
    """
    form = f"{'' if scope else 'allow|deny '}ACTION[,ACTION] on REPOSITORY[@REF][:PATH]"
    what = "scope" if scope else "statement"
    found = _STATEMENT.fullmatch(text)
    if found is None or (found[1] is None) != scope:
        raise InvalidInputError(
            f"{what} {text!r}: give {form}, as in "
            f"'{'' if scope else 'allow '}read,write on flights@dev:tables/*'"
        )
    effect, actions, resource = found.groups()
    if unknown := sorted({*actions.split(",")} - {*ACTIONS}):
        raise InvalidInputError(
            f"{what} {text!r}: action {unknown[0]!r} is none of {', '.join(ACTIONS)}"
        )
    parts = _RESOURCE.fullmatch(resource)
    if parts is None:
        raise InvalidInputError(
            f"{what} {text!r}: resource {resource!r}: give REPOSITORY[@REF][:PATH], as in 'flights', "
            "'flights@release-*' or 'flights@main:tables/*'; '*' is every repository"
        )
    repository, ref, path = parts.groups(default=_ALL)
    return Statement(
        text, effect != "deny", frozenset(actions.split(",")), repository, ref, _path(path, text)
    )


def _path(path: str, text: str) -> str:
    """Return the pattern of paths, which ends with ``**`` if it stands for all that is below."""
    folder = path.removesuffix("/")
    if not _ODD_PARTS.isdisjoint(folder.split("/")):
        raise InvalidInputError(
            f"{text!r}: path {path!r}: a part of it is empty, '.' or '..'; give the beginning of paths "
            "in the repository, as in 'tables/*'"
        )
    if folder != path:
        path = folder + _BELOW
    elif path.rpartition("/")[2] == _ALL:
        path += _ALL
    globs.compiled(path)  # refuses what is no pattern
    return path


def _covers_name(pattern: str, name: str) -> bool:
    return pattern == _ALL or (bool(name) and fnmatchcase(name, pattern))


def _folders(path: str) -> Iterator[str]:
    """Yield the folders above a file, or above and at ``folder/``."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _is(pattern: str, path: str) -> bool:
    return pattern == path or globs.matches(pattern, path)


def _covers_path(pattern: str, path: str) -> bool:
    if pattern == "**":
        return True
    if pattern.endswith(_BELOW):
        head = pattern.removesuffix(_BELOW)
        return any(_is(head, folder) for folder in _folders(path))
    return bool(path) and not path.endswith("/") and _is(pattern, path)


def _touches_path(pattern: str, path: str) -> bool:
    if path and not path.endswith("/"):
        return _covers_path(pattern, path)
    start = globs.literal_start(pattern)
    return (
        pattern.startswith(path)
        or start.startswith(path)
        or (start != pattern and path.startswith(start))
    )


def check_statements(texts: tuple[str, ...], *, scope: bool = False) -> tuple[Statement, ...]:
    """Return the statements of texts."""
    if len(texts) > _MOST:
        raise InvalidInputError(
            f"{len(texts)} statements: give at most {_MOST}, or several policies"
        )
    return tuple(parse(each, scope=scope) for each in texts)


def _stored(*, scope: bool) -> FieldType[tuple[Statement, ...]]:
    def load(value: object) -> Statement:
        try:
            return parse(TEXT.load(value), scope=scope)
        except InvalidInputError:
            raise Unfit(value, "a scope" if scope else "a statement") from None

    return array(FieldType(load, str))


STATEMENTS = _stored(scope=False)
SCOPES = _stored(scope=True)
EVERYTHING = parse(f"allow {','.join(ACTIONS)} on *")
"""What admins are allowed."""
