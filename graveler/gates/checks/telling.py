"""How checks say what is wrong: all of it, as far as one can read it."""

from collections.abc import Iterable
from typing import Final

__all__ = ["listed"]

_SHOWN: Final = 5


def listed(problems: Iterable[str]) -> str | None:
    """Return problems as one text, the first five in full; None where there are none."""
    found = list(problems)
    if not found:
        return None
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more
