"""The page of a lake: its repositories, and what in each one needs a look."""

from dataclasses import dataclass
from typing import Any

from graveler.errors import GravelerError
from graveler.lake import Lake
from graveler.model import Commit
from graveler.pages.page import Page, limited
from graveler.pages.query import Query

_REPOSITORIES = 100


@dataclass(frozen=True, slots=True)
class Line:
    """A repository in the list.

    Attributes:
        trouble: Why it cannot be read; then it has no head.
        head: The head of its default branch.
    """

    name: str
    trouble: str = ""
    head: Commit | None = None


def lake(lake: Lake, query: Query) -> Page:
    """Return the page of a lake."""
    readable = (name for name in lake.repositories() if query.may_read(name))
    names, more = limited(readable, _REPOSITORIES)
    lines = [_line(lake, name) for name in names]
    values: dict[str, Any] = {"lines": lines, "more": more, "location": lake.location}
    return Page("lake", "The lake", values)


def _line(lake: Lake, name: str) -> Line:
    try:
        repository = lake.repository(name)
        return Line(name, head=repository.commit(repository.stores.default_branch))
    except GravelerError as error:
        return Line(name, trouble=str(error))
