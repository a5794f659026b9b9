"""Bounded answers: JSON values with as many characters as there is room for."""

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

from graveler.lake.shapes import shape_of

MOST_ITEMS = 1_000
_PAGE_CHARACTERS = 60_000
_PER_VALUE = 8
_T = TypeVar("_T")


class Room:
    """The room for an answer.

    Attributes:
        left: Characters that are left; a value counts eight more.
        cut: Whether something was left out.
    """

    def __init__(self, left: int = 2 * _PAGE_CHARACTERS) -> None:
        self.left = left
        self.cut = False

    def fit(self, value: Any) -> Any:
        """Return a JSON value, without what there is no room for."""
        self.left -= _PER_VALUE
        if isinstance(value, str):
            kept = value[: max(self.left, 0)]
            self.left -= len(kept)
            self.cut |= len(kept) < len(value)
            return kept if len(kept) == len(value) else f"{kept}…"
        if isinstance(value, Mapping):
            items = takewhile(self._has_room, value.items())
            return {self.fit(str(name)): self.fit(each) for name, each in items}
        if isinstance(value, list | tuple):
            return [self.fit(each) for each in takewhile(self._has_room, value)]
        return value

    def _has_room(self, _: object) -> bool:
        self.cut |= self.left <= 0
        return self.left > 0


def page(
    items: Iterable[_T],
    limit: int,
    cursor: Callable[[_T], str] = lambda _: "",
    shape: Callable[[_T], Any] = shape_of,
) -> dict[str, Any]:
    """Return the first items as JSON values, whether there are more, and after which these begin."""
    shown: list[Any] = []
    room, last = Room(_PAGE_CHARACTERS), ""
    for item in items:
        if len(shown) == limit or room.left <= 0:
            return {"items": shown, "more": True, "next": last, "cut": room.cut}
        shown.append(room.fit(shape(item)))
        last = cursor(item)
    return {"items": shown, "more": False, "next": "", "cut": room.cut}
