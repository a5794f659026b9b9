"""What a gate reports, made plain: small, and the same in every process."""

import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["plain", "shortened"]

_MOST: Final = 64
_LONGEST: Final = 500
_LARGEST: Final = 2**53


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text that fits in a record, its end cut off where it is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as JSON has them, at most 64, texts cut at 500 characters."""
    chosen = list(facts.items())[:_MOST]
    return {shortened(str(name)): _plain(value) for name, value in chosen}


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    number = getattr(value, "item", None)
    if callable(number) and getattr(value, "ndim", 1) == 0:
        value = number()  # one of numpy's
    match value:
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) <= _LARGEST else str(value)
        case float():
            return float(value) if math.isfinite(value) else str(float(value))
        case Mapping():
            return plain(value)
        case set() | frozenset():
            return _plain(sorted(value, key=repr))
        case list() | tuple():
            return [_plain(item) for item in value[:_MOST]]
        case _:
            return shortened(str(value))
