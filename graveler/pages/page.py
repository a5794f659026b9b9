"""A page: its template and what it shows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from graveler.pages.query import Query

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """A page as data.

    Attributes:
        template: Name of its template, without ``.html``.
        title: Its heading and title; text of users is shown as text.
        values: What the template shows: plain values, without HTML.
        status: The HTTP status.
        query: The request, once it is known; `Site.answer` sets it.
    """

    template: str
    title: str
    values: Mapping[str, Any]
    status: int = 200
    query: Query | None = None


def limited(items: Iterable[T], most: int) -> tuple[list[T], bool]:
    """Return the first items, and whether some are left out."""
    found = list(islice(items, most + 1))
    return found[:most], len(found) > most
