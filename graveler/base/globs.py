"""Patterns of paths: ``tables/**``, ``*.json``, ``tables/flights/``.

==========  ====================================================
``*``       any characters of one part of a path
``?``       one character, no slash
``[a-z]``   one character of a set; ``[!a-z]`` one that is not in it
``**``      as a whole part: any number of parts; at the end: all that is below
``a/``      the same as ``a/**``
==========  ====================================================

A pattern matches whole paths and is case-sensitive. The text of an existing path or folder is no pattern
(`graveler.reads.view.literal_in`).
"""

import re
from functools import lru_cache
from itertools import pairwise

from graveler.errors import InvalidInputError

_MAGIC = re.compile(r"[*?\[]")
_PIECE = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_ANY = "**"


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression whose ``fullmatch`` matches the paths of a pattern."""
    if not pattern or pattern.startswith("/"):
        raise InvalidInputError(
            f"pattern {pattern!r}: give one that paths match, as in 'tables/**' or '*.json'"
        )
    given = (pattern + _ANY if pattern.endswith("/") else pattern).split("/")
    parts = [part for part, after in pairwise([*given, ""]) if (part, after) != (_ANY, _ANY)]
    *folders, last = parts
    text = "".join("(?:.+/)?" if part == _ANY else f"{_part(part)}/" for part in folders)
    text += ".+" if last == _ANY else _part(last)
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise InvalidInputError(f"pattern {pattern!r}: {error}") from error


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a path."""
    return compiled(pattern).fullmatch(path) is not None


def literal_start(pattern: str) -> str:
    """Return the text with which every matching path begins."""
    return _MAGIC.split(pattern, maxsplit=1)[0]


def _part(part: str) -> str:
    return "".join(map(_regex, _PIECE.findall(part)))


def _regex(piece: str) -> str:
    if piece.startswith("*"):
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if len(piece) == 1:
        return re.escape(piece)
    inner = piece[1:-1]
    negated = inner.startswith("!")
    inner = re.sub(r"([\[\]\\^&~|])", r"\\\1", inner.removeprefix("!"))
    return f"[^/{inner}]" if negated else f"[{inner}]"
