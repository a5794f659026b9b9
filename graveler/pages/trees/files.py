"""The page of a folder: what is in it at a ref or a time, and how it got there."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from graveler.lake import Repository
from graveler.model import Commit, Entry, Prefix
from graveler.pages.page import Page, limited
from graveler.pages.query import Query
from graveler.pages.trees.places import (
    Place,
    commits_of,
    moves_of,
    nothing_at,
    place_of,
    staged_at,
)
from graveler.reads.schemas import ROWS, stated_rows
from graveler.reads.totals import Totals, folder_totals

ENTRIES = 100
"""A page has so many files and folders."""
STAGED = 20
"""A page shows so many staged files."""
RANGES = 96
"""A page reads so many ranges, of some thousand files each, for the sums of folders."""


class Item(NamedTuple):
    """A file or a folder of a folder.

    Attributes:
        size: Its bytes; None: not known yet.
        rows: Its rows; None: unknown.
        changed: The last commit that changed it; None: it is too far back.
        written: When the bytes of a file were written.
    """

    path: str
    name: str
    is_folder: bool
    files: int
    size: int | None
    rows: int | None
    changed: Commit | None
    written: datetime | None


def files(repository: Repository, query: Query) -> Page:
    """Return the page of a folder."""
    place = place_of(repository, query, folder=True)
    after = query.text("after")
    listed = place.ref.list(place.path, after=after, delimiter="/")
    found, more = limited(listed, ENTRIES)
    if place.path and not found and not place.ref.has_below(place.path):
        return nothing_at(place, query)
    folders = [item.path for item in found if isinstance(item, Prefix)]
    stores, commit = repository.stores, place.ref.commit
    whole, *sums = folder_totals(stores, commit, [place.path, *folders], most=RANGES)
    staged, more_staged = limited(staged_at(repository, place), STAGED)
    values = {
        "place": place,
        "commit": commit,
        "moves": moves_of(repository, place),
        "whole": whole,
        "items": list(_items(place, found, dict(zip(folders, sums, strict=True)))),
        "after": after,
        "next": found[-1].path if more else "",
        "unsummed": any(each.size is None for each in (whole, *sums)),
        "staged": staged,
        "more_staged": more_staged,
        "most": ENTRIES,
    }
    return Page("files", place.name or repository.name, values)


def _items(
    place: Place, found: Sequence[Entry | Prefix], sums: dict[str, Totals]
) -> Iterator[Item]:
    changes = commits_of(place, [item.path for item in found])
    for item in found:
        path = item.path
        name, changed = path[len(place.path) :], changes.get(path)
        if isinstance(item, Prefix):
            yield Item(path, name, True, *sums[path], changed, None)
        else:
            known = stated_rows(item.metadata.get(ROWS, ""))
            yield Item(path, name, False, 1, item.size, known, changed, item.mtime)
