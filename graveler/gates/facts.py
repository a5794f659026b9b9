"""The facts that a gate reports, as small JSON values that are equal in every process."""

import math
from collections.abc import Mapping
from itertools import count, islice
from typing import Any, Final

_MOST: Final = 64
_MOST_VALUES: Final = 1_000
_DEEPEST: Final = 4
_LONGEST: Final = 500
_LARGEST: Final = 2**53
_LEFT_OUT: Final = "…"


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return valid text of at most `longest` characters; a longer text loses its end."""
    valid = text[:longest].encode("utf-8", "replace").decode()
    return valid if len(text) <= longest else f"{valid[: longest - 1]}…"


def plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as JSON values.

    Limits: 64 facts, 64 items in a list or mapping, four levels, 1,000 values in total and 500
    characters in a text. What exceeds a limit is cut.
    """
    return _mapping(facts, 0, count())


def _mapping(facts: Mapping[str, Any], depth: int, counted: "count[int]") -> dict[str, Any]:
    chosen = islice(facts.items(), _MOST)
    return {shortened(str(name)): _plain(value, depth, counted) for name, value in chosen}


def _plain(value: Any, depth: int, counted: "count[int]") -> Any:
    if next(counted) >= _MOST_VALUES:
        return _LEFT_OUT
    number = getattr(value, "item", None)
    if callable(number) and getattr(value, "ndim", 1) == 0:
        value = number()  # a scalar of numpy
    if isinstance(value, (Mapping, set, frozenset, list, tuple)):
        return _LEFT_OUT if depth >= _DEEPEST else _several(value, depth + 1, counted)
    match value:
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) <= _LARGEST else shortened(str(value))
        case float():
            return float(value) if math.isfinite(value) else str(float(value))
        case _:
            return shortened(str(value))


def _several(value: Any, depth: int, counted: "count[int]") -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, depth, counted)
    items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
    return [_plain(item, depth, counted) for item in items[:_MOST]]
